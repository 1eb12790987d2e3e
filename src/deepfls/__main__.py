"""``python -m deepfls`` is the command ``deepfls``."""

import sys


def main() -> None:
    """Entry point of the command; an interrupt while it is imported ends like one while it works."""
    try:
        from deepfls.cli.app import main as run

        run()
    except KeyboardInterrupt:
        print("Stopped: interrupted.", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
