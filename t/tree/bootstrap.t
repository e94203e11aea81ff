#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# bootstrap: which packages it installs for each command, what it says where it cannot, when it
# configures again, and what it shows of tests.  Nothing is installed or built: what it calls is
# replaced, and writes a log.  Where bare-tree takes its Debian from.  debian/make-orig and a signal.
. "$(dirname "$0")/../lib/tap.sh"

bin=$scratch/bin
tree=$scratch/tree
mkdir "$bin" "$tree" "$tree/debian" "$tree/t" "$tree/t/tree"
for tool in cat dirname env find grep rm sed sh sort tail touch; do
  ln -s "$(command -v $tool)" "$bin/$tool"
done
cp "$top_srcdir/bootstrap" "$tree/"
cp "$top_srcdir/debian/control" "$tree/debian/"

fake () { # FILE: standard input is what it does, in sh
  { echo "#!$bin/sh"; cat; } >"$1" && chmod +x "$1"
}

fake "$bin/id" <<'PROGRAM'
echo "$user"
PROGRAM
fake "$bin/dpkg-query" <<'PROGRAM'
for package; do :; done
grep -qxF "$package" "$scratch/installed" && echo "ii "
PROGRAM
fake "$bin/apt-get" <<'PROGRAM'
while [ $# -gt 0 ] && [ "$1" != install ]; do shift; done
[ $# -gt 0 ] || exit 0
shift
for package; do echo "$package"; done >>"$scratch/asked"
cat "$scratch/asked" >>"$scratch/installed"
PROGRAM
for name in bin/autoreconf bin/make tree/configure tree/config.status tree/t/tree/count-results; do
  fake "$scratch/$name" <<'PROGRAM'
echo "${0##*/} $*" >>"$scratch/log"
PROGRAM
done
export scratch user

new_machine () { # USER
  user=$1
  : >"$scratch/installed"
}

# What it asks apt-get for is in $scratch/asked, and what else it calls in $scratch/log.
bootstrap () { # STATUS COMMAND...
  : >"$scratch/asked"
  : >"$scratch/log"
  status_is "$1" env PATH="$bin" JOBS=1 "$tree/bootstrap" $2
}

asks_for () { # PACKAGE...
  for package; do
    grep -qxF "$package" "$scratch/asked" || { echo "not $package"; return 1; }
  done
}

asks_not_for () { # PACKAGE...
  for package; do
    ! grep -xF "$package" "$scratch/asked" || return
  done
}

# The names in debian/control, but what only packages and documentation need.
list_control () {
  sed -n '/^Build-Depends:/,/^[^B ]/{/<!nodoc>/d;s/^\(Build-Depends:\)* *\([a-z0-9.+-]*\).*,*$/\2/p;}' \
    "$tree/debian/control" | grep '^[a-z]' | grep -v '^debhelper'
}

asks_for_control () {
  list_control >"$scratch/listed"
  [ "$(wc -l <"$scratch/listed")" -gt 8 ] || return
  while read -r package; do
    asks_for "$package" || return
  done <"$scratch/listed"
}

# What check installs after demo: a C++ compiler, and the programs that only tests run.
decides_on_no_object () {
  ! grep -E '(-dev|-headers)$' "$scratch/asked"
}

says_how () { # PACKAGE...: the last line is a command that installs them, and nothing is run
  tail -n 1 "$scratch/err" | grep -q 'as root: apt-get install .*' || return
  for package; do
    tail -n 1 "$scratch/err" | grep -q " $package\\>" || { echo "not $package"; return 1; }
  done
  ! grep -q 'not found' "$scratch/err" && [ ! -s "$scratch/asked" ]
}

new_machine 1000
mv "$bin/autoreconf" "$scratch/"
check "no root, no sudo, no autoconf: it fails" bootstrap 1 demo
check "... with the command that is needed" says_how autoconf libglib2.0-dev pocl-opencl-icd
mv "$scratch/autoreconf" "$bin/"
touch "$tree/Makefile.in"
check "... with an autoconf from elsewhere: it goes on" bootstrap 0 build
check "... through configure and make" grep -q '^make' "$scratch/log"
check "... after it has said what is missing" \
  grep -q 'packages are missing: autoconf .*libjson-glib-dev' "$scratch/err"

new_machine 0
check "root, demo" bootstrap 1 demo # there is no example
check "... what it needs" asks_for autoconf automake g++ gcc libtool make pkgconf libglib2.0-dev \
  libjson-glib-dev ocl-icd-opencl-dev pocl-opencl-icd systemtap-sdt-dev
check "... and no more" asks_not_for clinfo cmake debhelper doxygen mandoc
check "then check" bootstrap 0 check
check "... what tests need" asks_for clinfo cmake mandoc
check "... and no package that decides on objects" decides_on_no_object
check "... and not what is there" asks_not_for autoconf g++ gcc pocl-opencl-icd
check "then all again" bootstrap 0 check
check "... installs nothing" test ! -s "$scratch/asked"

# ---- install and uninstall ----

cp "$bin/make" "$scratch/make"
fake "$bin/make" <<'PROGRAM'
case "$*" in *' print') echo "$scratch/prefix/usr" ;; esac
echo "make $*" >>"$scratch/log"
PROGRAM
fake "$bin/ldconfig" <<'PROGRAM'
echo ldconfig >>"$scratch/log"
PROGRAM
touch "$tree/Makefile" "$tree/config.status"
logs () { # LINE...: these are the last
  tail -n $# "$scratch/log" >"$scratch/logged"
  printf '%s\n' "$@" | diff - "$scratch/logged"
}

new_machine 0
check "root, install" bootstrap 0 install
check "... by make, and the linker is told" logs "make -s --no-print-directory install" ldconfig
check "... which names the folder" grep -q "^bootstrap: install: done, in $scratch/prefix/usr\$" "$scratch/err"
check "uninstall" bootstrap 0 uninstall
check "... by make" logs "make -s --no-print-directory uninstall" ldconfig
new_machine 1000
check "no root, where the user may write" bootstrap 0 install
check "... the linker's cache is the system's" logs "make -s --no-print-directory install"
check "... with DESTDIR" bootstrap 0 "install DESTDIR=/elsewhere"
check "... for make" logs "make -s --no-print-directory install DESTDIR=/elsewhere"
mv "$tree/Makefile" "$scratch/"
check "uninstall in a tree that is not configured" bootstrap 1 uninstall
mv "$scratch/Makefile" "$tree/"
mkdir "$scratch/prefix"
chmod a-w "$scratch/prefix"
if [ -w "$scratch/prefix" ]; then
  skip "no root, and no sudo" "root may write everywhere"
else
  check "no root, and no sudo" bootstrap 1 install
  check "... with where it may not write" grep -q "you may not write in $scratch/prefix/usr" "$scratch/err"
fi
mv "$scratch/make" "$bin/make"

new_machine 0
check "root, check" bootstrap 0 check
check "... all that debian/control says" asks_for_control
check "... but not for documentation, or packages" asks_not_for debhelper doxygen xsltproc

if [ -e /var/lib/dpkg/status ]; then
  touch "$tree/Makefile"
  touch -d 2000-01-01 "$tree/config.status"
  check "packages came since it was configured" bootstrap 0 build
  check "... it is, again" grep -q '^config.status .*--recheck' "$scratch/log"
  touch "$tree/config.status"
  check "none came" bootstrap 0 build
  check "... it is not" test -z "$(grep '^config' "$scratch/log")"
else
  skip "packages came since it was configured" "no Debian"
fi

# ---- what is shown of tests ----

cat >"$scratch/some.t" <<'TEST'
echo "ok 1 - fine"
echo "not ok 2 - a colon: and a word"
echo "ok 3 - other # SKIP no device"
echo 1..3
TEST
mkdir "$tree/t/pool"
some=$tree/t/pool/some
drive () {
  AM_TAP_AWK=${AWK:-awk} sh "$top_srcdir/t/lib/log-driver.sh" "$top_srcdir/build-aux/tap-driver.sh" \
    --test-name t/pool/some.t --log-file "$some.log" --trs-file "$some.trs" --color-tests yes \
    -- sh "$scratch/some.t" >"$scratch/driven" 2>&1
}
says () { # LINE...: of the program, and its results that failed
  printf '%s\n' "$@" | diff - "$scratch/driven"
}
copies () { # yes|no: the log into test-suite.log
  grep -x ":copy-in-global-log: $1" "$some.trs"
}

drive
check "a program with a test that fails: its name is said" \
  says "FAIL: t/pool/some.t (1 passed, 1 failed, 1 skipped)" "    2 - a colon: and a word"
check "... its log is copied" copies yes
mv "$some.log" "$scratch/failed.log"
mv "$some.trs" "$scratch/failed.trs"
sed -i 's/^echo "not ok/echo "ok/' "$scratch/some.t"
drive
check "one in which none fails: a line" says "PASS: t/pool/some.t (2 passed, 1 skipped)"
check "... its log is not copied" copies no

cat >"$scratch/some.t" <<'TEST'
echo "ok 1 - fine"
sleep 300 & # it holds the driver's pipe
wait
TEST
TARN_TEST_SECONDS=soon drive
check "a time that is no number" \
  says "log-driver.sh: TARN_TEST_SECONDS is 'soon', which is no number"
TARN_TEST_SECONDS=1 drive
check "one that hangs is ended, with what it has started" \
  says "ERROR: t/pool/some.t (1 passed, 2 failed)" "    - missing test plan" "    - ended after 1 s"
check "... the seconds that it took are in its results" \
  grep -xE ':seconds: [1-9][0-9]* t/pool/some\.t' "$some.trs"

# ---- the totals of all programs ----

# Eleven programs that took 1, 2, 3 ... 10 and 100 seconds.
mkdir -p "$scratch/results/t/pool"
for n in 1 2 3 4 5 6 7 8 9 10 100; do
  printf ':test-result: PASS\n:seconds: %d t/pool/p%d.t\n' $n $n >"$scratch/results/t/pool/p$n.trs"
done
counts () { # STATUS LINE...: of count-results
  expected=$1
  shift
  printf '%s\n' "$@" >"$scratch/expected"
  sh "$top_srcdir/t/tree/count-results" "$scratch/results" >"$scratch/out"
  [ $? -eq "$expected" ] && diff "$scratch/expected" "$scratch/out"
}
check "the ten programs that took longest, then totals" counts 0 "Slowest programs, in seconds:" \
  "   100  t/pool/p100.t" "    10  t/pool/p10.t" "     9  t/pool/p9.t" "     8  t/pool/p8.t" \
  "     7  t/pool/p7.t" "     6  t/pool/p6.t" "     5  t/pool/p5.t" "     4  t/pool/p4.t" \
  "     3  t/pool/p3.t" "     2  t/pool/p2.t" "11 passed, 0 failed, 0 skipped"
rm "$scratch/results/t/pool/"*
printf ':test-result: PASS\n:test-result: FAIL one\n:test-result: SKIP\n' \
  >"$scratch/results/t/pool/old.trs"
check "... without times, and with a failure" counts 1 "1 passed, 1 failed, 1 skipped"
rm "$scratch/results/t/pool/"*
check "... of no program" counts 1 "0 passed, 0 failed, 0 skipped"

cp "$scratch/driven" "$scratch/made"
fake "$bin/make" <<'PROGRAM'
case "$*" in *' print'*) echo 1; exit; esac
case "$*" in *check*) cp "$scratch"/failed.* "$scratch/tree/t/pool/"; cat "$scratch/made"; exit 2; esac
PROGRAM
fake "$tree/t/tree/count-results" <<'PROGRAM'
echo "1 passed, 1 failed, 1 skipped"
exit 1
PROGRAM
ln -s "$(command -v cp)" "$bin/cp"
cat >"$scratch/made" <<'OUTPUT'
  CC       t/pool/some.o
FAIL: t/pool/some.t (1 passed, 1 failed, 1 skipped)
    2 - a colon: and a word
============
# TOTAL: 3
make[3]: *** [Makefile:1: test-suite.log] Error 1
OUTPUT
cat >"$scratch/expected" <<'OUTPUT'
FAIL: t/pool/some.t (1 passed, 1 failed, 1 skipped)
    2 - a colon: and a word

== t/pool/failed.log
not ok 2 - a colon: and a word
FAIL: t/pool/some.t 2 - a colon: and a word
1..3

failed:
    t/pool/some.t 2 - a colon: and a word
1 passed, 1 failed, 1 skipped
OUTPUT
check "check, which fails" bootstrap 1 check
check "... shows the log without what passed, names, and totals last" \
  diff "$scratch/expected" "$scratch/out"
check "... and the program's name as the last line on standard error" \
  sh -c 'tail -n 1 "$1" | grep -x "bootstrap: failed: t/pool/failed.t"' sh "$scratch/err"

# ---- bare-tree ----

bare_tree=$top_srcdir/t/tree/bare-tree
codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release 2>/dev/null)
mkdir "$scratch/parts"
cat >"$scratch/apt.conf" <<CONF
Dir::Etc::sourcelist "$scratch/sources.list";
Dir::Etc::sourceparts "$scratch/parts";
CONF

takes () { # SUITE MIRROR ARGUMENT...
  made="$1 from $2"
  shift 2
  APT_CONFIG=$scratch/apt.conf status_is 0 sh "$bare_tree" -n "$@" \
    && [ "$(cat "$scratch/out")" = "$made" ]
}

unset MIRROR
check "bare-tree: no sources" takes stable http://deb.debian.org/debian
if command -v apt-config >/dev/null && [ -n "$codename" ] && grep -qx ID=debian /etc/os-release; then
  cat >"$scratch/sources.list" <<SOURCES
# deb http://comment.example/debian $codename main
deb-src http://source.example/debian $codename main
deb https://other.example/apt $codename-other main
deb cdrom:[Debian]/ $codename main
deb [arch=amd64 trusted=yes] http://security.example/debian-security $codename-security main
deb [ arch=amd64 ] http://one-line.example/debian/ $codename main contrib
deb http://later.example/debian $codename main
SOURCES
  check "bare-tree: sources.list" takes stable http://one-line.example/debian/
  cat >"$scratch/parts/a.sources" <<SOURCES
Types: deb-src
URIs: http://source.example/debian
Suites: $codename

Enabled: no
Types: deb
URIs: http://disabled.example/debian
Suites: $codename

Types: deb deb-src
# a comment
URIs:
 http://deb822.example/debian
 http://second.example/debian
Suites: $codename-updates
 $codename
Components: main
SOURCES
  echo "deb http://ignored.example/debian $codename main" >"$scratch/parts/a.save"
  mv "$scratch/sources.list" "$scratch/one-line"
  check "bare-tree: deb822" takes stable http://deb822.example/debian
  rm "$scratch/parts/a.sources"
  mv "$scratch/one-line" "$scratch/parts/b.list"
  check "bare-tree: one of sources.list.d" takes stable http://one-line.example/debian/
  check "bare-tree: -s" takes trixie http://one-line.example/debian/ -s trixie
else
  skip "bare-tree: apt's sources" "no Debian"
fi
MIRROR=http://mirror.example/debian
export MIRROR
check "bare-tree: MIRROR" takes stable "$MIRROR"

# A signal while debian/make-orig works.
leaves_nothing () {
  mkdir -p "$scratch/killing" "$scratch/temporary" || return
  printf '#!/bin/sh\nkill $PPID\n' >"$scratch/killing/autoreconf" && chmod +x "$scratch/killing/autoreconf" || return
  ! PATH=$scratch/killing:$PATH TMPDIR=$scratch/temporary \
    with_signals sh "$top_srcdir/debian/make-orig" "$scratch/orig.tar.xz" \
    && [ -z "$(ls "$scratch/temporary")" ]
}
if [ -e "$top_srcdir/debian/make-orig" ] && git -C "$top_srcdir" rev-parse HEAD >/dev/null 2>&1; then
  check "debian/make-orig: a signal leaves no folder behind" leaves_nothing
else
  skip "debian/make-orig: a signal leaves no folder behind" "this is no git checkout"
fi
done_testing
