#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# embed.sh HTML CSS JS...: prints the files as C strings.  The scripts become one string.

text () { # NAME FILE...
  name=$1
  shift
  printf '\nconst gchar %s[] =\n' "$name"
  sed 's/[\\"]/\\&/g; s/?/\\?/g; s/^/  "/; s/$/\\n"/' "$@" || exit
  echo '  "";'
}

html=$1
css=$2
shift 2
printf '/* Made by embed.sh. */\n/* clang-format off */\n#include "view/texts.h"\n'
text view_page_html "$html"
text view_page_css "$css"
text view_page_js "$@"
