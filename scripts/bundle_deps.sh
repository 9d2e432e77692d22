#!/bin/sh
# Carries the libraries of scripts/packages.txt to a machine that has a compiler and CMake but no Debian packages.
#   scripts/bundle_deps.sh                packs what is installed here into bundle/dependencies.tar.xz
#   scripts/bundle_deps.sh unpack FOLDER  unpacks it there and prints how to configure with it
set -eu
cd "$(dirname "$0")/.."
archive=bundle/dependencies.tar.xz

if [ "${1:-}" = unpack ]; then
  mkdir -p "$2"
  tar -xJf "$archive" -C "$2"
  folder=$(cd "$2" && pwd)
  echo "export LD_LIBRARY_PATH=$(dirname "$(find "$folder/lib" -name 'libdnnl.so')")"
  echo "cmake --preset release -DCMAKE_PREFIX_PATH=$folder"
  exit 0
fi

scripts/setup
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
development=$(sed 's/#.*//' scripts/packages.txt | grep -- -dev; dpkg-query -W -f '${Package}\n' 'coinor-lib*-dev')

# Headers and CMake packages at the places they have below /usr, from which the latter find the former (and
# Google Benchmark's insists on one archive).
# shellcheck disable=SC2086 # a list of packages
dpkg -L $development | sort -u | grep -E '^/usr/(include/|.*/cmake/|.*/libbenchmark_main\.a)' | grep -v /unsupported/ | while read -r path; do
  [ ! -f "$path" ] || install -D -m 644 "$path" "$stage/${path#/usr/}"
done
# doctest's package alone names /usr as its prefix.
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
  cp -n "$file" "$folder/"
  [ "$(basename "$file")" = "$(basename "$library")" ] || ln -sf "$(basename "$file")" "$folder/$(basename "$library")"
done

mkdir -p bundle
tar -cJf "$archive" -C "$stage" .
ls -lh "$archive"
