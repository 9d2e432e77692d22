#!/bin/sh
# ccache.sh CCACHE COMPILER ARGUMENTS...: compiles through ccache, but for precompiled headers. One that was kept from an
# earlier checkout knows other times of its files, so that GCC reads them again in spite of `#pragma once`.
ccache=$1
shift
case " $* " in
  *".gch "*) exec "$@" ;;
esac
exec "$ccache" "$@"
