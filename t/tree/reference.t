#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# The API reference has everything that is public: what the maps list is what has a manual page, and
# Doxygen, which reads the headers, has nothing to complain of.  symbols.t compares maps, libraries
# and headers.
. "$(dirname "$0")/../lib/tap.sh"

reference=$top_builddir/doc/reference
overview=$top_srcdir/doc/man/tarn.7
version=$(sed -n 's/^AC_INIT(\[tarn\], \[\(.*\)\])$/\1/p' "$top_srcdir/configure.ac")

if command -v mandoc >/dev/null; then
  check "tarn(7) has no fault" mandoc -Tlint -W warning "$overview"
else
  skip "tarn(7) has no fault" "there is no mandoc"
fi

version_is_told () {
  grep -q "^\.TH TARN 7 \"[0-9-]*\" \"Tarn $version\"" "$overview"
}
check "tarn(7) is of this version" version_is_told

# The names in tarn(7), as they are printed.
overview_words () {
  sed 's/\\-/-/g; s/[",]/ /g' "$overview" | tr -s ' ' '\n' | sort -u
}

variables_are_told () {
  overview_words >"$scratch/words"
  find "$top_srcdir/lib" -name '*.c' -exec grep -l g_getenv {} + \
    | xargs grep -h -o '"[A-Z][A-Z_]*"' | tr -d '"' | sort -u >"$scratch/variables"
  grep -q TARN_TEST "$scratch/variables" || return
  ! comm -23 "$scratch/variables" "$scratch/words" | grep .
}
check "tarn(7) has the environment variables of the libraries" variables_are_told

programs_are_told () {
  overview_words >"$scratch/words"
  for page in "$top_srcdir"/doc/man/*.1; do
    name=${page##*/}
    grep -qx "${name%.1}" "$scratch/words" || { echo "$name is missing"; return 1; }
  done
}
check "tarn(7) has the programs" programs_are_told

if [ ! -e "$reference/built" ]; then
  skip "the API reference" "built without it: doxygen and xsltproc are needed"
  done_testing
  exit
fi

pages () {
  (cd "$reference/man3" && ls) | sed 's/\.3$//' | sort
}

mapped () {
  sed -n 's/^ *\(tarn_[a-z0-9_]*\);$/\1/p' "$top_srcdir"/lib/*/*.map
}

# These are in no library.
inline () {
  sed -n '/^static inline /{n;s/^\(tarn_[a-z0-9_]*\) (.*/\1/p;}' "$top_srcdir"/include/tarn/*.h
}

pages_are_what_is_public () {
  { mapped; inline; } | sort >"$scratch/public"
  pages >"$scratch/pages"
  [ -s "$scratch/public" ] && diff "$scratch/public" "$scratch/pages"
}
check "each public function has a manual page, and nothing else has" pages_are_what_is_public

pages_are_whole () {
  for page in "$reference"/man3/*.3; do
    name=$(basename "$page" .3)
    sections="NAME SYNOPSIS DESCRIPTION HISTORY"
    grep -q "^\.BI \"void $name " "$page" || sections="$sections RETURN.VALUE"
    grep -q "^\.BI .*$name (void);" "$page" || sections="$sections PARAMETERS"
    for section in $sections; do
      grep -A 1 "^\.SH $section\$" "$page" | grep -q "^[^.]\|^\.[^S]" \
        || { echo "$name: nothing in $section"; return 1; }
    done
    grep -q "^Since Tarn [0-9]*\.[0-9]*\.\$" "$page" || { echo "$name: since when?"; return 1; }
  done
}
check "... with all sections, and since when it is there" pages_are_whole

# What a manual page sends its reader to is there.
links_lead_somewhere () {
  pages >"$scratch/pages"
  sed 's/\\-/-/g' "$reference"/man3/*.3 "$overview" | grep -o '^\.BR .* (3)' \
    | sed 's/^\.BR //; s/ (3)//' | sort -u >"$scratch/links"
  [ -s "$scratch/links" ] && ! comm -13 "$scratch/pages" "$scratch/links" | grep .
}
check "... and links to pages that there are" links_lead_somewhere

if command -v mandoc >/dev/null; then
  check "... and no fault" mandoc -Tlint -W warning "$reference"/man3/*.3
else
  skip "... and no fault" "there is no mandoc"
fi

html_is_whole () {
  { mapped; inline; } | sort >"$scratch/public"
  cat "$reference"/html/*.html \
    | sed -n 's/.*class="memtitle">.*<\/span>\(tarn_[a-z0-9_]*\)().*/\1/p' | sort -u >"$scratch/headings"
  diff "$scratch/public" "$scratch/headings"
}
check "each public function is in the HTML" html_is_whole

needs_no_script () {
  ! ls "$reference"/html/*.js 2>/dev/null && ! grep -l '<script' "$reference"/html/*.html
}
check "the HTML needs no script" needs_no_script

# As make does it, but in a folder elsewhere.
run_doxygen () {
  export top_srcdir top_builddir
  mkdir -p "$scratch/again" \
    && VERSION=$version OUTPUT=$scratch/again AWK=${AWK:-awk} \
      "${DOXYGEN:-doxygen}" "$top_srcdir/doc/reference/Doxyfile" >"$scratch/warnings" 2>&1
  status=$?
  cat "$scratch/warnings"
  [ $status -eq 0 ] && [ ! -s "$scratch/warnings" ]
}
check "Doxygen has no warning: nothing public is without its documentation" run_doxygen

is_reproduced () {
  rm -f "$scratch"/again/html/*.js
  diff -r "$reference/html" "$scratch/again/html"
}
check "the HTML is the same elsewhere" is_reproduced

# Types and macros, too, say since when they are there; and functions, who may call them.
cat >"$scratch/missing.xsl" <<'XSL'
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
  <xsl:output method="text"/>
  <xsl:template match="/doxygenindex">
    <xsl:for-each select="compound[@kind='struct' or @kind='union'
                                   or substring(name, string-length(name) - 1) = '.h']">
      <xsl:for-each select="document(concat(@refid, '.xml'), .)/doxygen/compounddef">
        <xsl:if test="@kind != 'file'">
          <xsl:text>type&#10;</xsl:text>
          <xsl:if test="not(detaileddescription//simplesect[@kind='since'])">
            <xsl:value-of select="concat(compoundname, ': since when?&#10;')"/>
          </xsl:if>
        </xsl:if>
        <xsl:for-each select="self::*[@kind='file']/sectiondef/memberdef">
          <xsl:value-of select="concat(@kind, '&#10;')"/>
          <xsl:if test="not(detaileddescription//simplesect[@kind='since'])
                        and not(@kind='define' and initializer='' and not(param))">
            <xsl:value-of select="concat(name, ': since when?&#10;')"/>
          </xsl:if>
          <xsl:if test="@kind='function'
                        and not(contains(concat(briefdescription, detaileddescription), 'thread'))">
            <xsl:value-of select="concat(name, ': which threads?&#10;')"/>
          </xsl:if>
        </xsl:for-each>
      </xsl:for-each>
    </xsl:for-each>
  </xsl:template>
</xsl:stylesheet>
XSL
says_since_when () {
  "${XSLTPROC:-xsltproc}" --nonet "$scratch/missing.xsl" "$scratch/again/xml/index.xml" \
    >"$scratch/seen" || return
  sort "$scratch/seen" | uniq -c | sort -rn >"$scratch/counts"
  for kind in function define typedef enum type; do
    grep -qx " *[0-9]* $kind" "$scratch/counts" || { echo "no $kind was seen"; return 1; }
  done
  ! grep '?$' "$scratch/seen"
}
check "every name says since when, and every function which threads may call it" says_since_when

done_testing
