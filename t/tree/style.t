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
for folder in $(find include lib t doc tools -name '*.[ch]' 2>/dev/null | xargs -n 1 dirname | sort -u)
do
  check "$folder" $CLANG_FORMAT --dry-run -Werror "$folder"/*.[ch]
done
done_testing
