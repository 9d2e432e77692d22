#!/bin/sh
# Carries the libraries of scripts/packages.txt to a machine that has a compiler and CMake but no Debian packages.
#   scripts/bundle_deps.sh                packs what is installed here into bundle/dependencies.tar.gz
#   scripts/bundle_deps.sh unpack FOLDER  unpacks it there and prints how to configure with it
# The archive needs nothing but tar and gzip there. Packing fails if it grows beyond ALPA_BUNDLE_MIB (48).
set -eu
cd "$(dirname "$0")/.."
archive=bundle/dependencies.tar.gz

if [ "${1:-}" = unpack ]; then
  [ $# -eq 2 ] || { echo "scripts/bundle_deps.sh unpack FOLDER" >&2; exit 2; }
  rm -rf "$2"
  mkdir -p "$2"
  tar -xzf "$archive" -C "$2"
  folder=$(cd "$2" && pwd)
  echo "export LD_LIBRARY_PATH=$(dirname "$(find "$folder/lib" -name 'libdnnl.so')")"
  echo "cmake --preset release -DCMAKE_PREFIX_PATH=$folder"
  exit 0
fi

scripts/setup
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
# MPI belongs to the machine: alpa builds with the one it has there, or without.
development=$(sed 's/#.*//' scripts/packages.txt | grep -- -dev | grep -v openmpi; dpkg-query -W -f '${Package}\n' 'coinor-lib*-dev')

# Headers and CMake packages at the places they have below /usr, from which the latter find the former (and
# Google Benchmark's insists on one archive).
# shellcheck disable=SC2086 # a list of packages
dpkg -L $development | sort -u | grep -E '^/usr/(include/|.*/cmake/|.*/libbenchmark_main\.a)' | grep -v /unsupported/ | while read -r path; do
  [ ! -f "$path" ] || install -D -m 644 "$path" "$stage/${path#/usr/}"
done
# What Debian keeps by architecture (jconfig.h), beside the headers that include it.
for folder in "$stage"/include/*-linux-gnu; do
  [ ! -d "$folder" ] || { cp -r "$folder"/. "$stage/include/" && rm -r "$folder"; }
done
# doctest's package alone names /usr as its prefix.
# shellcheck disable=SC2016 # CMake's variables
sed -i 's#set(_IMPORT_PREFIX "/usr")#get_filename_component(_IMPORT_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)#' \
  "$stage/lib/cmake/doctest/doctestTargets.cmake"

# Libraries under every name they go by, with all that they load but what the compiler itself brings.
# shellcheck disable=SC2086
dpkg -L $development | grep '\.so$' | while read -r library; do
  echo "$library"
  echo "$(dirname "$library")/$(objdump -p "$library" | awk '/SONAME/ {print $2}')"
  ldd "$library" | awk '$3 ~ /^\// {print $3}'
done | sort -u | grep -vE '/lib(c|m|stdc\+\+|gcc_s|pthread|dl|rt)\.so' | while read -r library; do
  file=$(readlink -f "$library")
  folder=$stage/lib/$(basename "$(dirname "$library")")
  mkdir -p "$folder"
  # Symbols for debuggers are half of the largest of them.
  [ -e "$folder/$(basename "$file")" ] || { cp "$file" "$folder/" && strip --strip-debug "$folder/$(basename "$file")"; }
  [ "$(basename "$file")" = "$(basename "$library")" ] || ln -sf "$(basename "$file")" "$folder/$(basename "$library")"
done

mkdir -p bundle
tar -cf - --sort=name --owner=0 --group=0 --numeric-owner -C "$stage" . | gzip -9n >"$archive"
mebibytes=$(($(stat -c %s "$archive") / 1048576 + 1))
[ "$mebibytes" -le "${ALPA_BUNDLE_MIB:-48}" ] || { echo "$archive is $mebibytes MiB, more than ${ALPA_BUNDLE_MIB:-48}" >&2; exit 1; }
ls -lh "$archive"
