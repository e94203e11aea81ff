#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# The locks that code may use, and the layout that .clang-format says.
. "$(dirname "$0")/../lib/tap.sh"

# ThreadSanitizer does not see GLib's locks, and so reports races where there are none.  The programs
# that use OpenCL as any program does need not know Tarn's locks.
has_only_our_locks () {
  ! (cd "$top_srcdir" && grep -rnE --include='*.[ch]' 'g_(mutex|rec_mutex|rw_lock|cond)_|GMutex' include lib t tools) \
    | grep -vE '^(lib/common/lock-private\.h|t/lib/fork-functions\.c|t/opencl/(layer/promises|programs/))'
}
check "locks are those of lock-private.h" has_only_our_locks

# Other versions of clang-format lay things out differently.
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
