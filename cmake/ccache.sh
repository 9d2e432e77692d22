#!/bin/sh
# ccache.sh CCACHE COMPILER ARGUMENTS...: compiles through ccache, but for precompiled headers. One that was kept from an
# earlier checkout knows other times of its files, so that GCC reads them again in spite of `#pragma once`. Beside each
# precompiled header lies the checksum of its preprocessed text, by which ccache shares objects between checkouts.
ccache=$1
shift
case " $* " in
  *".gch "*)
    "$@" || exit
    before=
    for argument; do  # again, for the text alone: no object, no list of files
      shift
      case $before in
        -o) header=$argument ;;
        -MT | -MF) ;;
        *)
          case $argument in
            -o | -MT | -MF | -MD) ;;
            *) set -- "$@" "$argument" ;;
          esac ;;
      esac
      before=$argument
    done
    "$@" -E -P | sha256sum >"$header.sum"
    exit ;;
esac
CCACHE_PCH_EXTSUM=1 exec "$ccache" "$@"
