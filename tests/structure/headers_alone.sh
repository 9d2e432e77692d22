#!/bin/sh
# headers_alone.sh COMPILER INCLUDE_FOLDER [FLAGS...]: every header below the folder compiles alone, without warnings.
set -eu
compiler=$1
folder=$2
shift 2
cd "$folder"
find alpa -name '*.h' -print | sort | xargs -n 1 -P 2 \
  "$compiler" -std=c++20 -Wall -Wextra -Werror -fsyntax-only -I . "$@" -x c++ /dev/null -include
echo "$(find alpa -name '*.h' | wc -l) headers compile alone"
