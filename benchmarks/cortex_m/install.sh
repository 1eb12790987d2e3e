#!/bin/sh
# Installs the compiler and the emulator if they are missing; prints the reason if it cannot.
set -eu
missing=""
for tool in arm-none-eabi-gcc:gcc-arm-none-eabi qemu-system-arm:qemu-system-arm; do
    command -v "${tool%%:*}" >/dev/null || missing="$missing ${tool##*:}"
done
[ -z "$missing" ] && exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "Missing:$missing. Installing them needs root and apt-get; the tests that need them are skipped."
    exit 0
fi
packages="gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm"
# shellcheck disable=SC2086 # several words on purpose
{ apt-get update -qq && apt-get install -y -qq --no-install-recommends $packages; } ||
    echo "apt-get could not install $packages; the tests that need them are skipped."
