#!/bin/sh
# Carries programs, or the libraries to compile them, to a machine that has no Debian packages.
#   scripts/bundle_deps.sh programs       builds here what scripts/gpu_check runs, and packs it with the libraries that it
#                                         loads, but NVIDIA's, into bundle/programs.tar.xz; gpu_check unpacks it
#   scripts/bundle_deps.sh                packs what scripts/packages.txt installs into bundle/dependencies.tar.gz
#   scripts/bundle_deps.sh unpack FOLDER  unpacks that there and prints how to configure with it
# The second archive needs nothing but tar and gzip there. Packing fails if an archive grows beyond ALPA_BUNDLE_MIB (48).
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

# packed ARCHIVE COMPRESSOR...: the folder $stage.
packed() {
  archive=$1
  shift
  mkdir -p bundle
  tar -cf - --sort=name --owner=0 --group=0 --numeric-owner -C "$stage" . | "$@" >"$archive"
  mebibytes=$(($(stat -c %s "$archive") / 1048576 + 1))
  [ "$mebibytes" -le "${ALPA_BUNDLE_MIB:-48}" ] || { echo "$archive is $mebibytes MiB, more than ${ALPA_BUNDLE_MIB:-48}" >&2; exit 1; }
  ls -lh "$archive"
}

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

if [ "${1:-}" = programs ]; then
  scripts/build release cuda_programs
  bin=build/release/bin
  mkdir -p "$stage/$bin" "$stage/build/release/lib"
  set -- "$bin"/alpa "$bin"/alpa-* "$bin"/bench_cuda_* "$bin"/test_cuda "$bin"/test_runtime "$bin"/test_equivalence "$bin"/test_api
  for program in "$@" "$bin/libalpa_cuda.so"; do
    strip -o "$stage/$program" "$program"
  done
  # All that they load but what the compiler and the toolkit bring.
  for program in "$@"; do ldd "$program"; done | awk '$3 ~ /^\// {print $3}' | sort -u |
    grep -vE '/lib(c|m|stdc\+\+|gcc_s|pthread|dl|rt|cudart|cublas|cublasLt|nvrtc|nccl|alpa_cuda)\.so' | while read -r library; do
    strip --strip-debug -o "$stage/build/release/lib/$(basename "$library")" "$(readlink -f "$library")"
  done
  pwd >"$stage/build/release/built_in"
  packed bundle/programs.tar.xz xz -6 -T0
  exit 0
fi

scripts/setup
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

packed "$archive" gzip -9n
