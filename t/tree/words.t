#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# Plain English: words.awk finds wordings that cost a second reading, such as "but for", or a comment
# that begins with "What" or "Whether".  A function's comment begins with a verb and its object
# ("Frees a block."), a struct's says what it is ("A cached block.").
#
# Prints the wordings of some files, or of all:
#     t/tree/words.t --find [FILE...]
. "$(dirname "$0")/../lib/tap.sh"

cd "$top_srcdir" || exit

# Sources and pages.  tools/view has a source that its makefile writes.
list_files () {
  find include lib tools doc \( -name built -o -path doc/reference/man3 -o -path doc/reference/html \
    -o -path doc/reference/xml -o -path tools/view/texts.c \) -prune -o -type f \( \
    -name '*.[ch]' -o -name '*.[ch]pp' -o -name '*.h.in' -o -name '*.md' -o -name '*.[1-9]' \) -print
  find doc -maxdepth 1 -type f
  ls CONTRIBUTING NEWS README SECURITY
}

find_words () { # [FILE...]
  if [ $# -eq 0 ]; then
    # shellcheck disable=SC2046  # no name has a blank
    set -- $(list_files)
  fi
  awk -f t/tree/words.awk "$@"
}

if [ "${1-}" = --find ]; then
  shift
  find_words "$@"
  exit
fi

# One of each sort, and what only looks like it.
cat >"$scratch/sample.c" <<'END'
/* What a thread keeps.  */
static GQueue kept; /* of TarnBlock */
/* Frees a block, but
 * for the last one.  */
const char *help = "Of memory, "
                   "such as null";
int twice; /* which it is  */
int once;  /* whether it is idle  */
// Tries again where that was in
// vain.
/* What now?  */
/* Nothing but forks "/" and '"'.  */
char quote = '"', slash = '/'; /* So many blocks.  */
/* Tells whether a block is free, so many as there are.  */
/** @return Whether it is free. */
END
cat >"$scratch/sample.md" <<'END'
# What is in it

Nobody knows, but
for one.

- Of these, none
- Not of these

    Of what is indented
END
cat >"$scratch/sample.1" <<'END'
.TP
.B \-n
Whether it is.
Of the same paragraph.
END
finds_samples () {
  find_words "$scratch/sample.c" "$scratch/sample.md" "$scratch/sample.1" \
    | sed 's,.*/sample\.\([a-z1]*:[0-9]*\):.*,\1,' | tr '\n' ' ' >"$scratch/lines"
  echo "c:1 c:3 c:5 c:7 c:9 c:13 c:15 md:3 md:6 1:3 " >"$scratch/expected"
  cat "$scratch/lines"
  echo
  cat "$scratch/expected"
  [ "$(cat "$scratch/lines")" = "$(cat "$scratch/expected")" ]
}
check "finds one of each sort" finds_samples

has_none () {
  find_words >"$scratch/found"
  cat "$scratch/found"
  [ ! -s "$scratch/found" ]
}
check "no wordings that cost a second reading" has_none

# clang-format joins a list in a comment with what it breaks off the end of a line that is too long.
has_no_joined_list () {
  # shellcheck disable=SC2046  # no name has a blank
  awk 'FNR == 1 { before = "" }
       before ~ /^ \*   .*[^.:\/]$/ && /^ \* [a-z]/ { print FILENAME ":" FNR ": " $0 }
       { before = $0 }' $(list_files) >"$scratch/joined"
  cat "$scratch/joined"
  [ ! -s "$scratch/joined" ]
}
check "no list whose lines a formatter has joined" has_no_joined_list
done_testing
