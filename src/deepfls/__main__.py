"""``python -m deepfls`` is the command ``deepfls``."""

from deepfls.cli.app import main

if __name__ == "__main__":
    main()
