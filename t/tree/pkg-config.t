#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# What pkg-config says: of each module, and of this tree for programs that are built with it as it
# is.  t/tree/install.t is for what is installed.
. "$(dirname "$0")/../lib/tap.sh"

if [ ! -f "$top_builddir/pkgconfig/tarn-uninstalled.pc" ]; then
  skip "pkg-config" "run ./configure first"
  done_testing
  exit
fi
if [ -n "${PKG_CONFIG_SYSROOT_DIR:-}" ]; then
  skip "pkg-config" "it puts $PKG_CONFIG_SYSROOT_DIR before every path"
  done_testing
  exit
fi
pkgconfig=$top_builddir/pkgconfig
PKG_CONFIG_PATH=$pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
export PKG_CONFIG_PATH

# Every library that one of ours is linked with is named where static linking looks.
names_all_libraries () { # MODULE FOLDER
  $PKG_CONFIG --static --libs "$1" >"$scratch/libs" || return
  sed -n "s/^dependency_libs='\(.*\)'/\1/p" "$top_builddir/$2/lib$1.la" | tr ' ' '\n' \
    | grep -v '^$' >"$scratch/linked"
  [ -s "$scratch/linked" ] || { echo "lib$1.la names nothing"; return 1; }
  while read -r word; do
    case $word in
      -l*) ;;
      *.la) word=-l$(basename "$word" .la | sed 's/^lib//') ;;
      *) continue ;;
    esac
    grep -q -e "$word\( \|\$\)" "$scratch/libs" || { echo "$word is missing"; return 1; }
  done <"$scratch/linked"
}

is_of_this_version () { # MODULE
  [ "$($PKG_CONFIG --modversion "$1")" = "$(sed -n 's/^#define TARN_VERSION_STRING "\(.*\)"$/\1/p' \
    "$top_builddir/include/tarn/version.h")" ]
}

# Installed or not: but for where things are, and words for people, the same.
says_the_same () { # MODULE
  for variant in "$1" "$1-uninstalled"; do
    grep -v -e '^#' -e '^Description:' -e '^[a-z_]*=' -e '^$' "$pkgconfig/$variant.pc" \
      | sed -E -e 's/ -[IL][^ ]*//g' -e 's/ -Wl,-rpath,[^ ]*//' -e 's/ +$//' -e '/^Cflags:$/d' \
        >"$scratch/$variant"
  done
  diff "$scratch/$1" "$scratch/$1-uninstalled"
}

cat >"$scratch/tarn.c" <<'CODE'
#include <tarn/tarn.h>

int
main (void)
{
  tarn_memo_clear_all ();
  return !TARN_CHECK_VERSION (0, 1, 0);
}
CODE
cat >"$scratch/tarn-opencl.c" <<'CODE'
#include <tarn/opencl.h>

int
main (void)
{
  return tarn_opencl_status_name (0) == NULL;
}
CODE
cat >"$scratch/tarn-cuda.c" <<'CODE'
#include <tarn/cuda.h>

int
main (void)
{
  tarn_cuda_clear_context_caches ();
  return tarn_cuda_error_quark () == 0;
}
CODE

cat >"$scratch/tarn-testing.c" <<'CODE'
#include <tarn/testing.h>

int
main (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (1000);

  tarn_testing_assert_no_leaks (device);
  return 0;
}
CODE

build () { # MODULE FLAG...: flags are pkg-config's
  $CC $T_CC_FLAGS -DCL_TARGET_OPENCL_VERSION=120 -Wall -Wextra -Werror "$scratch/$1.c" \
    -o "$scratch/$1" $($PKG_CONFIG --cflags --libs "$@")
}

for module in tarn:core tarn-opencl:opencl tarn-cuda:cuda tarn-testing:testing; do
  folder=lib/${module#*:}
  module=${module%%:*}
  if [ ! -f "$top_builddir/$folder/lib$module.la" ]; then
    skip "$module" "it was not built"
    continue
  fi
  check "$module: this tree is what is found" $PKG_CONFIG --uninstalled "$module"
  check "$module: the version" is_of_this_version "$module"
  check "$module: every library is named" names_all_libraries "$module" "$folder"
  check "$module: -uninstalled says the same" says_the_same "$module"
  check "$module: a program is built with this tree" build "$module"
  check "... and runs" env -u LD_LIBRARY_PATH "$scratch/$module"
  check "$module: a program is built, --static" build "$module" --static
  check "... and runs" env -u LD_LIBRARY_PATH "$scratch/$module"
done
done_testing
