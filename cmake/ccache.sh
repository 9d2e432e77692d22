#!/bin/sh
# ccache.sh CCACHE COMPILER ARGUMENTS...: compiles through ccache, but for precompiled headers. One that was kept from an
# earlier checkout knows other times of its files, so that GCC reads them again in spite of `#pragma once`. Beside each
# precompiled header lies the checksum of its preprocessed text, by which ccache shares objects between checkouts.
ccache=$1
shift
case " $* " in
  *".gch "*)
    "$@" || exit
    header=
    for argument; do  # again without `-o header`
      shift
      case $argument in
        -o) ;;
        *.gch) header=$argument ;;
        *) set -- "$@" "$argument" ;;
      esac
    done
    "$@" -E -P | sha256sum >"$header.sum"
    exit ;;
esac
CCACHE_PCH_EXTSUM=1 exec "$ccache" "$@"
