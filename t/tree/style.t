#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# The layout that .clang-format says.  Other versions of clang-format lay things out differently.
. "$(dirname "$0")/../lib/tap.sh"

case $($CLANG_FORMAT --version 2>/dev/null) in
  *"version 14."*) ;;
  *)
    skip "clang-format" "clang-format 14 is not installed"
    done_testing
    exit
    ;;
esac

cd "$top_srcdir" || exit
list_sources () { # FIND-OPTION...
  find "$@" \( -name '*.[ch]' -o -name '*.[ch]pp' \) 2>/dev/null
}
for folder in $(list_sources include lib t doc tools | xargs -n 1 dirname | sort -u); do
  # shellcheck disable=SC2046  # no name has a blank
  check "$folder" $CLANG_FORMAT --dry-run -Werror $(list_sources "$folder" -maxdepth 1)
done
done_testing
