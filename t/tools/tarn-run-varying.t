#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# tarn-run --every: programs whose output varies from run to run.  What is compared all the same is
# found if it is wrong; what is not, gives no alarm.  The programs are shell scripts, which report
# their calls as the layer would.
#
# shellcheck disable=SC2016  # they are text here
. "$(dirname "$0")/../lib/tap.sh"

top=$(cd "$top_builddir" && pwd -P)
runner=$top/tools/tarn-run
if [ ! -x "$runner" ]; then
  skip "--every, of output that varies" "tarn-run is not built"
  done_testing
  exit
fi
unset OPENCL_LAYERS TARN_LAYER_LIMIT TARN_LAYER_POOL TARN_LAYER_STATS TARN_LAYER_REPORT TARN_LAYER_FAULTS
unset TARN_FAULTS TARN_FAULTS_REPORT TARN_DEBUG

# $k is the number of the run without a fault, from 1; in the run in which a call fails $k is 6.
write_program () { # GOOD BAD: commands
  rm -rf "$scratch/program" "$scratch/runs"
  cat >"$scratch/program" <<PROGRAM
#!/bin/sh
echo "calls \$\$ clFinish 1" >>"\$TARN_LAYER_REPORT"
case \$TARN_LAYER_FAULTS in
  *clFinish=1*) echo "failed \$\$ clFinish 1" >>"\$TARN_LAYER_REPORT"; k=6; $2 ;;
  *) echo >>"$scratch/runs"; k=\$((\$(wc -l <"$scratch/runs"))); $1 ;;
esac
PROGRAM
  chmod +x "$scratch/program"
}
finds () { # GOOD BAD LINE: what is wrong
  write_program "$1" "$2"
  status_is 1 "$runner" --every "$scratch/program" || return
  grep -qx 'not ok 1 - clFinish:1, ignored: exit status 0, and another output than without a fault' \
    "$scratch/out" && grep -qxF -e "# $3" "$scratch/out"
}
accepts () { # GOOD BAD
  write_program "$1" "$2"
  status_is 0 "$runner" --every "$scratch/program" \
    && grep -qx 'ok 1 - clFinish:1, exit status 0' "$scratch/out"
}

# ---- output that is the same each time ----

check "the same each time: the line is named" finds 'echo one; echo two' 'echo one; echo three' \
  "line 2: 'two' expected, 'three' printed"
check "... in another order" finds 'echo one; echo two' 'echo two; echo one' \
  "line 1: 'one' expected, 'two' printed"
check "... a line less" finds 'echo one; echo two' 'echo one' "line 2: 'two' expected, nothing printed"
check "... a line more" finds 'echo one' 'echo one; echo two' "line 2: nothing expected, 'two' printed"
check "... nothing" finds 'echo one' 'true' "line 1: 'one' expected, nothing printed"
check "a long line, near its difference" finds \
  'printf "%0300d-one\n" 0' 'printf "%0300d-two\n" 0' \
  "line 1: '...000000000000000000000000-one' expected, '...000000000000000000000000-two' printed"
check "bytes that are no text" finds 'printf "a\\0\\033b\n"' 'printf "a\\0\\377b\n"' \
  "line 1: 'a\\x7f\\x1bb' expected, 'a\\x7f�b' printed"

# ---- lines that are the same, among others ----

mismatch='echo "GPU Runtime: 0.0$((k * 7919 % 97 + 11))s"; echo "Non-Matching CPU-GPU Outputs Beyond Error Threshold of 0.50 Percent: 0"'
wrong='echo "GPU Runtime: 0.045s"; echo "Non-Matching CPU-GPU Outputs Beyond Error Threshold of 0.50 Percent: 2047"'
check "a wrong line beside a run time" finds "$mismatch" "$wrong" \
  "line 2: 'Non-Matching CPU-GPU Outputs Beyond Error Threshold of 0.50 Percent: 0' expected, 'Non-Matching CPU-GPU Outputs Beyond Error Threshold of 0.50 Percent: 2047' printed"
check "a run time that is much longer" accepts "$mismatch" "k=9000; $mismatch"
says_how_much () {
  write_program 'echo "seed $((k * 7919 % 97))"; echo one; echo two' 'echo "seed 5"; echo one; echo two'
  status_is 0 "$runner" --every "$scratch/program" && grep -qx \
    '# standard output varies from run to run; lines compared: 2 whole, 1 in part, of 3' "$scratch/out"
}
check "how much is compared is said" says_how_much
check "a line that is missing" finds 'echo $((k * 7919 % 97)); echo one; echo two' 'echo 5; echo two' \
  "line 2: 'one' expected, nothing printed"
check "a line that is new" finds 'echo $((k * 7919 % 97)); echo one' 'echo 5; echo one; echo "is wrong"' \
  "line 3: nothing expected, 'is wrong' printed"

# ---- words and numbers within a line that varies ----

check "a wrong number beside one that varies" finds \
  'echo "seed $((k * 7919 % 97)), errors 0"' 'echo "seed 5, errors 17"' \
  "line 1: 'seed ..., errors 0' expected, 'seed 5, errors 17' printed"
check "a wrong word beside one that varies" finds \
  'echo "file /tmp/$(echo $k | md5sum | cut -c 1-6) is right"' 'echo "file /tmp/qqqqqq is wrong"' \
  "line 1: 'file ... is right' expected, 'file /tmp/qqqqqq is wrong' printed"
check "another word that varies" accepts 'echo "file /tmp/$(echo $k | md5sum | cut -c 1-6) is right"' \
  'echo "file /tmp/qqqqqq is right"'
check "a count that varies, and is another one" accepts 'echo "tries $((k * 7919 % 97))"' 'echo "tries 5000"'
check "an address" accepts 'echo "at 0x7f$((k * 7919 % 97))0a"' 'echo "at 0x55e0"'
check "bytes that stand for numbers inside" finds 'printf "a\\036\\037 b$k\n"' 'echo c' \
  "line 1: 'a\\x7f\\x7f b...' expected, 'c' printed"
rounded='set 2 5 3 2 4 6 5 3 4 2; shift $((k - 1)); echo "sum 1234.567$1"'
check "a result that varies by rounding, as it does" accepts "$rounded" 'echo "sum 1234.5679"'
check "... and is wrong" finds "$rounded" 'echo "sum 1000.5"' \
  "line 1: 'sum 1234.5672 to 1234.5676' expected, 'sum 1000.5' printed"
check "... and is no number" finds "$rounded" 'echo "sum -nan"' \
  "line 1: 'sum 1234.5672 to 1234.5676' expected, 'sum -nan' printed"
check "a decimal that varies by more" accepts 'set 2 5 3 2 4 6 5 3 4 2; shift $((k - 1)); echo "x 1.$1"' \
  'echo "x 77.0"'
check "... and is no number" finds 'set 2 5 3 2 4 6 5 3 4 2; shift $((k - 1)); echo "x 1.$1"' 'echo "x nan"' \
  "line 1: 'x ...' expected, 'x nan' printed"
check "a clock that goes on" accepts 'echo "tick 1234567.00$k"' 'echo "tick 2234567.001"'

# ---- times that were the same by chance ----

for line in 'Time: %s' 'took %s' '%s ms' '(%s GB/s)' 'kernel_time=%s' '%s us for it'; do
  # shellcheck disable=SC2059  # it is a format
  check "a time: $(printf "$line" 0)" accepts "printf '$line\\n' 0; echo \"\$k\"" "printf '$line\\n' 0.25; echo 9"
done
check "... and nothing else varies" accepts 'echo "Time: 0.00 s"' 'echo "Time: 0.01 s"'
check "the time of day" accepts 'echo "done at 12:59:59"' 'echo "done at 13:00:00"'
check "a date" accepts 'echo "on 2026-11-24"' 'echo "on 2026-11-25"'
check "seconds since 1970" accepts 'date +"now %s"' 'echo "now $(($(date +%s) + 2))"'

# ---- lines in another order, or number ----

threads='for i in 1 2 3 4; do echo "$(((i * 3 + k) % 5)) thread $(((i + k) % 4)) ok"; done | sort -r | cut -d " " -f 2-'
check "lines of threads" accepts "$threads; echo \$k" "k=3; $threads; echo 5"
check "... of which one is wrong" finds "$threads; echo \$k" "k=3; { $threads; } | sed 's/2 ok/2 bad/'; echo 5" \
  "line 1: 'thread 2 ok' expected, 'thread 2 bad' printed"
items='for i in 1 2 3; do echo "item $(((i + k) % 3)) in $((i * k)) steps, 0 errors"; done'
check "lines of which parts vary, in any order" accepts "$items" "k=7; $items"
check "... of which one is wrong" finds "$items" "k=7; { $items; } | sed '2s/0 err/3 err/'" \
  "line 2: 'item ... in ... steps, 0 errors' expected, 'item 0 in 14 steps, 3 errors' printed"
some='i=0; while [ $i -lt $((k % 3 + 1)) ]; do echo "retry $i"; i=$((i + 1)); done; echo "0 wrong"'
check "lines in any number" accepts "$some" 'echo "0 wrong"'
check "... more than ever" accepts "$some" "k=9; $some; echo retry 12; echo retry 15"
check "... and a wrong one" finds "$some" 'echo "retry 0"; echo "4 wrong"' \
  "line 3: '0 wrong' expected, '4 wrong' printed"
check "output that varies everywhere" accepts \
  'i=0; while [ $i -le $((k % 3)) ]; do echo "$k$i" | md5sum | cut -c 1-9 | tr 0-9 g-p; i=$((i + 1)); done' \
  'echo qqqqq; echo rrrr rrrr'
check "... with as many lines each time" accepts \
  'echo "$k" | md5sum | cut -c 1-9 | tr 0-9 g-p' 'echo qqqqq; echo rrrr rrrr'

# ---- what seems to be the same, and varies ----

rarely='if [ $k -eq 4 ]; then echo rare; else echo usual; fi'
check "output that rarely varies" accepts "$rarely" 'echo rare'
very_rarely='echo $k; if [ $k -eq 8 ]; then echo rare; else echo usual; fi'
check "... and more rarely, beside what always does" accepts "$very_rarely" 'echo 9; echo rare'
learns_late () {
  write_program 'echo same' 'echo other'
  status_is 1 "$runner" --every "$scratch/program" && [ "$(wc -l <"$scratch/runs")" -eq 5 ] || return
  write_program 'echo $k; echo same' 'echo 5; echo other'
  status_is 1 "$runner" --every "$scratch/program" && [ "$(wc -l <"$scratch/runs")" -eq 10 ] || return
  write_program 'echo $k; echo same' 'echo 5; echo same'
  status_is 0 "$runner" --every "$scratch/program" && [ "$(wc -l <"$scratch/runs")" -eq 5 ] || return
  write_program 'echo same' 'echo same'
  status_is 0 "$runner" --every "$scratch/program" && [ "$(wc -l <"$scratch/runs")" -eq 2 ]
}
check "so many runs as are needed" learns_late
fails_late () { # a run without a fault that fails says nothing about output
  write_program 'echo same; [ $k -le 2 ] || exit 3' 'echo other'
  status_is 1 "$runner" --every "$scratch/program" && grep -qx "# line 1: 'same' expected, 'other' printed" \
    "$scratch/out"
}
check "a later run without a fault that is not well" fails_late
# of more lines than this in wrong places the first missing one is found, and the others are not looked for
check "thousands of lines that are missing" finds 'echo seed $k; yes same | head -n 3000' 'echo seed 6; yes same | head -n 900' \
  "line 902: 'same' expected, nothing printed"
check "thousands of lines that are wrong" finds \
  'echo seed $k; seq 1 3000 | sed "s/.*/& is 1.00000$((k % 2))/"' 'echo seed 6; seq 1 3000 | sed "s/.*/& is 2.000006/"' \
  "line 2: '1 is 1 to 1.000001' expected, '1 is 2.000006' printed"
check "thousands of lines, the first of which is missing" finds \
  'echo seed $k; seq 1 3000' 'echo seed 6; seq 2 3000' "line 2: '1' expected, nothing printed"
check "thousands of lines in another order" accepts 'echo seed $k; yes same | head -n 3000; seq 1 3000' \
  'echo seed 6; seq 3000 -1 1; yes same | head -n 3000'
is_not_compared () {
  write_program 'i=0; while [ $i -lt 20001 ]; do echo $k $i; i=$((i + 1)); done' 'echo other'
  status_is 0 "$runner" --every "$scratch/program" && grep -qx \
    '# standard output varies from run to run, and has more than 20000 lines: it is not compared' "$scratch/out"
}
check "too much output that varies" is_not_compared
has_its_own_statuses () {
  write_program 'echo $k; echo same' 'echo other'
  status_is 0 "$runner" --every --expect-status 0 "$scratch/program" && [ "$(wc -l <"$scratch/runs")" -eq 2 ]
}
check "--expect-status: nothing is compared" has_its_own_statuses

done_testing
