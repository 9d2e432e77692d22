#!/bin/sh
# headers_alone.sh COMPILER SOURCE_FOLDER [FLAGS...]: every public header compiles alone, without warnings.
# The build has shown it of those that a source includes first, and so has the compilation of a header of the one that it
# includes first. The others are compiled here: at night all, by day (tests/support/nightly.h) every third.
set -eu
compiler=$1
cd "$2"
shift 2

# The first #include of each source, or nothing of a header's.
first_includes() {
  find src kernels models tools -name '*.cc' -exec grep -hm 1 '^#include' {} \; | sed -n 's/^#include "\(alpa.*\)"$/\1/p'
}

shown=$(first_includes | sort -u)
headers=$(cd include && find alpa -name '*.h' | sort)
others=$(echo "$headers" | grep -vxF "$shown")
first=$(cd include && echo "$others" | xargs -n 1 grep -m 1 '^#include' | sed -n 's/^#include "\(alpa.*\)"$/\1/p')
others=$(echo "$others" | grep -vxF "$first")
[ -n "${ALPA_NIGHTLY:-}" ] || others=$(echo "$others" | awk 'NR % 3 == 1')
echo "$others" | xargs -n 1 -P 2 \
  "$compiler" -std=c++20 -Wall -Wextra -Werror -fsyntax-only -I include "$@" -x c++ /dev/null -include
echo "$(echo "$headers" | wc -l) headers compile alone, $(echo "$others" | wc -l) of them compiled here"
