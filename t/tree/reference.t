#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# The API reference has everything that is public: what the maps list, and each type and macro of the
# headers, has a manual page that whatis finds, and Doxygen, which reads the headers, has nothing to
# complain of.  Every link of the HTML leads somewhere.  symbols.t compares maps, libraries and
# headers.
. "$(dirname "$0")/../lib/tap.sh"

reference=$top_builddir/doc/reference
[ -e "$reference/built" ] || reference=$top_srcdir/doc/reference # of a release
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
  find "$top_srcdir/lib" -name '*.c' -exec grep -l -e g_getenv -e secure_getenv -e _tarn_get_ {} + \
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
  sed -n '/^static inline /{n;s/^\(tarn_[a-z0-9_]*\) (.*/\1/p;}' "$top_srcdir"/include/tarn/*.h \
    "$top_srcdir"/include/tarn/*/*.h
}

headers () {
  cat "$top_srcdir"/include/tarn/*.h "$top_srcdir"/include/tarn/*/*.h "$top_srcdir"/include/tarn/*.h.in
}

types () {
  headers | sed -n 's/^} \(Tarn[A-Za-z]*\);.*/\1/p
                    s/^typedef struct _Tarn.* \(Tarn[A-Za-z]*\);$/\1/p
                    s/^typedef .*(\*\(Tarn[A-Za-z]*\)) (.*/\1/p'
}

macros () {
  headers | sed -n 's/^#define \(TARN_[A-Z_]*\).*/\1/p' | grep -v '_H$'
}

pages_are_what_is_public () {
  { mapped; inline; types; macros; } | sort -u >"$scratch/public"
  pages >"$scratch/pages"
  for name in tarn_pool_new tarn_memo_key_integer TarnPool TarnPoolOptions TarnReclaimFunc TarnError \
    TARN_ALLOCATOR; do
    grep -qx "$name" "$scratch/public" || { echo "$name was not seen"; return 1; }
  done
  diff "$scratch/public" "$scratch/pages"
}
check "each public function, type and macro has a manual page, and nothing else has" \
  pages_are_what_is_public

# Those that are another name of a page are in that one's.
whole_pages () {
  grep -L '^\.so ' "$reference"/man3/*.3
}

pages_are_whole () {
  for page in $(whole_pages); do
    name=$(basename "$page" .3)
    sections="NAME SYNOPSIS DESCRIPTION HISTORY"
    case $name in
      tarn_*)
        grep -q "^\.BI \"void $name " "$page" || sections="$sections RETURN.VALUE"
        grep -q "^\.BI .*$name (void);" "$page" || sections="$sections PARAMETERS"
        ;;
    esac
    ! grep -qx "} $name;" "$page" || sections="$sections (FIELDS|VALUES)"
    for section in $sections; do
      grep -E -A 1 "^\.SH $section\$" "$page" | grep -q "^[^.]\|^\.[^S]" \
        || { echo "$name: nothing in $section"; return 1; }
    done
    grep -q "^Since Tarn [0-9]*\.[0-9]*\.\$" "$page" || { echo "$name: since when?"; return 1; }
  done
}
check "... with all sections, and since when it is there" pages_are_whole

# As lexgrog, which whatis goes by, would have it: names, a hyphen, a line that is read at a glance.
name_lines () {
  for page in $(whole_pages); do
    sed -n '/^\.SH NAME$/,/^\.SH SYNOPSIS$/p' "$page" | sed '1d; $d' >"$scratch/name"
    [ "$(wc -l <"$scratch/name")" = 1 ] || { echo "$page: not one line"; return 1; }
    sed 's/\\-/-/g' "$scratch/name"
  done
}

names_are_short () {
  name_lines >"$scratch/lines" || { cat "$scratch/lines"; return 1; }
  grep -qx 'tarn_pool_new - makes a pool over an allocator' "$scratch/lines" || return
  grep -qx 'TarnPoolOptions, TARN_POOL_OPTIONS_INIT - .*' "$scratch/lines" || return
  ! grep -Evx '(Tarn|TARN_|tarn_)[A-Za-z0-9_]*(, TARN_[A-Z_]*)? - [^\]*[^\.]' "$scratch/lines" \
    && ! awk 'length > 100 { print length ": " $0 }' "$scratch/lines" | grep .
}
check "... a NAME of at most 100 characters" names_are_short

# A function does something: "Gets ...", not "The number of ...".
functions_do_something () {
  name_lines | sed -n 's/^tarn_.* - //p' >"$scratch/briefs"
  [ -s "$scratch/briefs" ] && ! grep -Ev '^[a-z]+s ' "$scratch/briefs" \
    && ! grep -E '^(as|is|this|bytes) |so (much|many)|as there (is|are)' "$scratch/briefs"
}
check "... whose functions begin with a verb" functions_do_something

names_are_found () {
  lexgrog $(whole_pages) | sed 's/^[^"]*"//; s/ - .*//' | sort >"$scratch/found"
  pages | diff - "$scratch/found" || return
  pages | while read -r name; do
    man -M "$reference" -w 3 "$name" | grep . || return
  done
}
if command -v lexgrog >/dev/null && command -v man >/dev/null; then
  check "... which whatis reads, and man finds" names_are_found
else
  skip "... which whatis reads, and man finds" "there is no man"
fi

# What a type's declaration has is described below it.
fields_are_described () {
  for page in $(whole_pages); do
    sed -n '/^typedef \(struct\|union\|enum\)$/,/^}/p' "$page" \
      | sed -n 's/^ .*(\*\([a-z_]*\)) (.*/\1/p; s/^ [^(]*[ *]\([a-z_]*\)\(\[4\]\)*;$/\1/p
                s/^  *} \([a-z]*\);$/\1/p; s/^  \(TARN_[A-Z0-9_]*\)\( = .*\)*,*$/\1/p' >"$scratch/fields"
    while read -r field; do
      grep -qx "\.I $field" "$page" || { echo "$page: $field"; return 1; }
      echo "$field" >>"$scratch/all-fields"
    done <"$scratch/fields"
  done
  for field in thread_cache_bytes first_arg_id reserved TARN_ERROR_FAILED value; do
    grep -qx "$field" "$scratch/all-fields" || { echo "$field was not seen"; return 1; }
  done
}
check "... with each field and value of a type" fields_are_described

# What a manual page sends its reader to is there.
links_lead_somewhere () {
  pages >"$scratch/pages"
  sed 's/\\-/-/g' "$reference"/man3/*.3 "$overview" | grep -o '^\.BR .* (3)' \
    | sed 's/^\.BR //; s/ (3)//' | sort -u >"$scratch/links"
  [ -s "$scratch/links" ] && ! comm -13 "$scratch/pages" "$scratch/links" | grep .
}
check "... and links to pages that there are" links_lead_somewhere

if command -v mandoc >/dev/null; then
  check "... and no fault" mandoc -Tlint -W warning $(whole_pages)
else
  skip "... and no fault" "there is no mandoc"
fi

# As lintian asks it.
groff_is_silent () {
  MANROFFSEQ='' MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z $(whole_pages) 2>"$scratch/said" \
    >"$scratch/printed"
  ! grep . "$scratch/said" && [ -s "$scratch/printed" ]
}
if command -v man >/dev/null && command -v groff >/dev/null; then
  check "... and no warning of groff's" groff_is_silent
else
  skip "... and no warning of groff's" "there is no man or no groff"
fi

html_is_whole () {
  { mapped; inline; } | sort >"$scratch/public"
  cat "$reference"/html/*.html \
    | sed -n 's/.*class="memtitle">.*<\/span>\(tarn_[a-z0-9_]*\)().*/\1/p' | sort -u >"$scratch/headings"
  diff "$scratch/public" "$scratch/headings"
}
check "each public function is in the HTML" html_is_whole

# But for the search, which is the list of all there is without it.
needs_no_script () {
  ! ls "$reference"/html/*.js 2>/dev/null \
    && [ "$(grep -l '<script' "$reference"/html/*.html)" = "$reference/html/search.html" ]
}
check "the HTML needs no script" needs_no_script

search_has_all_names () {
  { mapped; inline; types; macros; } | sort -u >"$scratch/public"
  sed -n 's/^<li><a href="[^"]*">\([A-Za-z_]*\)\( ()\)*<.*/\1/p' "$reference/html/search.html" \
    | sort -u >"$scratch/listed"
  [ -s "$scratch/listed" ] && ! comm -23 "$scratch/public" "$scratch/listed" | grep . || return
  for name in TarnPoolOptions.limit_bytes 'tarn::opencl::pool::allocate ()' tarn::cuda::resource 'Staying within memory' 'A block that several queues use'; do
    grep -q "^<li.*<a href=\"[^\"]*\">$name</a>" "$reference/html/search.html" \
      || { echo "no $name"; return 1; }
  done
  for page in "$reference"/html/*.html; do
    grep -q '<form action="search.html">' "$page" || { echo "$page: no search"; return 1; }
  done
}
check "the search has all names, and sections of the guide" search_has_all_names

# What the first page does not lead to, nobody finds.
headers_are_on_the_first_page () {
  for header in "$top_srcdir"/include/tarn/*.h "$top_srcdir"/include/tarn/*.hpp; do
    file=${header##*/}
    name=${file%.*}
    grep -q "href=\"${name}_8${file#*.}.html\"[^>]*>tarn/$file<" "$reference/html/index.html" \
      || { echo "$file"; return 1; }
    grep -q "<tarn/$name.h>" "$top_srcdir/include/tarn/tarn.h" || continue
    grep -q "href=\"${name}_8h.html\"" "$reference/html/tarn_8h.html" \
      || { echo "$name.h is not on tarn.h's page"; return 1; }
  done
  for page in "$top_srcdir"/doc/guide/*.md; do
    name=$(basename "$page" .md | tr - _)
    grep -q "href=\"md_doc_guide_$name.html\"" "$reference/html/index.html" \
      || { echo "$page"; return 1; }
  done
}
check "the first page leads to each header and each page of the guide" headers_are_on_the_first_page

# Each link to a file or to a place in one, as installed: beside the guide and the rest of doc.
html_links_lead_somewhere () (
  stage=$scratch/doc
  mkdir "$stage" && cp -r "$reference/html" "$stage/reference" || return
  for beside in "$top_srcdir"/doc/*; do
    [ -e "$stage/${beside##*/}" ] || ln -s "$(cd "${beside%/*}" && pwd)/${beside##*/}" "$stage"
  done
  cd "$stage/reference" || return
  grep -o ' \(id\|name\)="[^"]*"' ./*.html | sed 's/^\(.*\): [a-z]*="\(.*\)"$/\1#\2/' \
    | sort -u >"$scratch/places"
  grep -o ' \(href\|src\|action\)="[^"]*"' ./*.html \
    | sed 's/^\([^:]*\): [a-z]*="\(.*\)"$/\1 \2/; s/ \(\.\/\)*/ .\//; s/^\(.*\) \.\/#/\1 \1#/' \
    | grep -v ' \./\(https\{0,1\}\|mailto\):' | sort -u >"$scratch/all-links"
  sed -n 's/^.* \(.*#.*\)$/\1/p' "$scratch/all-links" | sort -u >"$scratch/to-places"
  sed 's/^.* //; s/#.*//' "$scratch/all-links" | sort -u >"$scratch/to-files"
  [ "$(wc -l <"$scratch/to-places")" -gt 400 ] && [ "$(wc -l <"$scratch/to-files")" -gt 60 ] || return
  while read -r file; do
    [ -e "$file" ] || { echo "$file is missing, from:"; grep " $file" "$scratch/all-links"; }
  done <"$scratch/to-files" >"$scratch/dead"
  comm -23 "$scratch/to-places" "$scratch/places" >>"$scratch/dead"
  cat "$scratch/dead"
  [ ! -s "$scratch/dead" ]
)
# Those that can throw, too.  What a class inherits is on its own page: there it needs no script.
cxx_is_there () {
  for name in allocate get limit_bytes try_reserve; do
    grep -q "class=\"memItemRight\".*[ >]$name</[ab]> (" "$reference/html/classtarn_1_1opencl_1_1pool.html" \
      || { echo "tarn::opencl::pool has no $name"; return 1; }
  done
  ! grep -l toggleInherit "$reference"/html/*.html
}
check "the C++ classes are in the HTML" cxx_is_there

check "every link of the HTML leads somewhere" html_links_lead_somewhere

# A link of Markdown's that is broken over two lines takes the rest of its page along.
all_is_rendered () {
  ! grep -nE '@(code|endcode|output|ref|section)\b' "$reference"/html/*.html
}
check "no command of Doxygen's is left in the HTML" all_is_rendered

if ! command -v "${DOXYGEN:-doxygen}" >/dev/null || ! command -v "${XSLTPROC:-xsltproc}" >/dev/null; then
  skip "Doxygen has no warning" "doxygen and xsltproc are needed"
  done_testing
  exit
fi

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
  "${XSLTPROC:-xsltproc}" --nonet --output "$scratch/names" "$top_srcdir/doc/reference/names.xsl" \
    "$scratch/again/xml/index.xml" || return
  sed "/^<!-- names -->\$/r $scratch/names" "$scratch/again/html/search.html" >"$scratch/search" \
    && cp "$scratch/search" "$scratch/again/html/search.html"
  diff -r "$reference/html" "$scratch/again/html"
}
made_by=$(sed -n 's/^<!-- Generated by Doxygen \([0-9.]*\).*/\1/p' "$scratch/again/html/index.html")
if grep -q "^<!-- Generated by Doxygen $made_by " "$reference/html/index.html"; then
  check "the HTML is the same elsewhere" is_reproduced
else
  skip "the HTML is the same elsewhere" "the release's is not of Doxygen $made_by"
fi

# Types and macros, too, say since when they are there; and functions, what their parameters are, what
# they return, and who may call them.  Those of C++ name a function of C for that.
cat >"$scratch/missing.xsl" <<'XSL'
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
  <xsl:output method="text"/>
  <xsl:template match="/doxygenindex">
    <xsl:for-each select="compound[@kind='struct' or @kind='union' or @kind='class' or @kind='namespace'
                                   or substring(name, string-length(name) - 1) = '.h']">
      <xsl:for-each select="document(concat(@refid, '.xml'), .)/doxygen/compounddef">
        <xsl:if test="@kind != 'file' and @kind != 'namespace'">
          <xsl:if test="contains(compoundname, '::')">class&#10;</xsl:if>
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
          <xsl:variable name="told" select="detaileddescription//parametername"/>
          <xsl:for-each select="self::*[@kind='function']/param/declname">
            <xsl:text>parameter&#10;</xsl:text>
            <xsl:if test="not(. = $told)">
              <xsl:value-of select="concat(../../name, ': what is ', ., '?&#10;')"/>
            </xsl:if>
          </xsl:for-each>
          <xsl:if test="@kind='function' and type != 'void'">
            <xsl:text>result&#10;</xsl:text>
            <xsl:if test="not(detaileddescription//simplesect[@kind='return'])">
              <xsl:value-of select="concat(name, ': what does it return?&#10;')"/>
            </xsl:if>
          </xsl:if>
        </xsl:for-each>
        <xsl:for-each select="self::*[@kind='namespace']/sectiondef/memberdef">
          <xsl:text>namespace&#10;</xsl:text>
          <xsl:if test="not(detaileddescription//simplesect[@kind='since'])">
            <xsl:value-of select="concat(../../compoundname, '::', name, ': since when?&#10;')"/>
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
  for kind in function define typedef enum type class parameter result namespace; do
    grep -qx " *[0-9]* $kind" "$scratch/counts" || { echo "no $kind was seen"; return 1; }
  done
  ! grep '?$' "$scratch/seen"
}
check "every name says since when, and every function what it takes, returns, and which threads may call it" \
  says_since_when

done_testing
