# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# Finds wordings that cost a second reading, for t/tree/words.t.  Prints a line "FILE:LINE: TEXT" for
# each comment or string of a source, and each paragraph of a page, that has one.

BEGIN {
  # Clauses in the place of a noun.  A question may begin so.
  first = "^(Of|What|Which|Whose|Whoever|Whether|So many|As many as|So much|As much as) "
  # Anywhere.  Between blanks, so that "nothing but forks" is no match.
  phrases = " (but for|in vain|as it is done|not used for the longest|cannot join|handed on|" \
    "moved on|beside buffers|nobody changed|so many [a-z]+ of|is told of|are told of|is had|are had|" \
    "(has|have|had) ([a-z]+ )?([a-z]+ )?given back|has the driver)[ .,;:)]"
}

function report (line, text)
{
  print FILENAME ":" line ": " substr (text, 1, 100)
}

# Looks at one comment, string or paragraph, of one line by now.
function look (line, text)
{
  gsub (/[ \t]+/, " ", text)
  sub (/^[ *<!.\/(-]+/, "", text)
  # A string may be the middle of a sentence, and fields are "whether it is idle" and "of TarnBlock".
  if (kind != "string" && text !~ /^(whether|of [A-Z][A-Za-z]*[,:;.]?($| ))/)
    text = toupper (substr (text, 1, 1)) substr (text, 2)
  if ((text ~ first && text !~ /^[^.;:]*\?/) || (" " text " ") ~ phrases)
    report (line, text)
}

function end_block ()
{
  if (block != "")
    look (block_line, block)
  block = ""
}

function add_to_block (text)
{
  if (block == "")
    block_line = FNR
  block = block " " text
}

# The strings that follow one another are one text, as to the compiler.
function add_string (text)
{
  if (kind != "string")
    end_block ()
  kind = "string"
  if (block == "")
    block_line = FNR
  block = block text
}

# Returns what follows the comment.
function read_comment (rest,  end, text)
{
  end = index (rest, "*/")
  text = end ? substr (rest, 1, end - 1) : rest
  sub (/^[ \t]*\*?/, "", text)
  # A paragraph, or a command, of a documentation comment.
  if (text ~ /^ *$/ || text ~ /^ *@/)
    end_block ()
  sub (/^ *@(brief|returns?|param(\[[a-z,]*\])? +[a-z_]+) */, "", text)
  if (text !~ /^ *$/)
    add_to_block (text)
  if (!end)
    return ""
  in_comment = 0
  end_block ()
  return substr (rest, end + 2)
}

# Takes a line of C apart.  in_comment: it begins in a comment.
function read_source (rest)
{
  if (in_comment)
    rest = read_comment (rest)
  while (match (rest, /"|\/\*|\/\/|'/)) {
    if (substr (rest, 1, RSTART - 1) ~ /[^ \t]/)
      end_block ()
    token = substr (rest, RSTART, RLENGTH)
    rest = substr (rest, RSTART + RLENGTH)
    if (token == "'")
      sub (/^(\\.|[^\\'])*'/, "", rest)
    else if (token == "\"") {
      match (rest, /^(\\.|[^\\"])*/)
      add_string (substr (rest, 1, RLENGTH))
      rest = substr (rest, RLENGTH + 2)
    } else if (token == "//") {
      # Lines of such comments are one text.
      if (kind != "line")
        end_block ()
      kind = "line"
      sub (/^[\/!<]+/, "", rest)
      add_to_block (rest)
      return
    } else {
      end_block ()
      kind = "comment"
      in_comment = 1
      rest = read_comment (rest)
    }
  }
  if (rest ~ /[^ \t]/ && !in_comment)
    end_block ()
}

FNR == 1 {
  end_block ()
  in_comment = in_code = 0
  kind = after_tag = ""
  is_source = FILENAME ~ /\.([ch](pp)?|h\.in)$/
  is_page = FILENAME ~ /\.[1-9]$/
}

is_source { read_source ($0); next }

# A manual page: a paragraph ends with each macro that is not about the font, and with a tag, which is
# the line after .TP.
is_page {
  if (/^\.(nf|EX)/)
    in_code = 1
  else if (/^\.(fi|EE)/)
    in_code = 0
  if (/^\.(B|I|BR|RB|IR|RI|BI|IB) /) {
    sub (/^\.[BIR]+ +/, "")
    add_to_block ($0)
  } else if (/^[.']/ || /^$/)
    end_block ()
  else if (!in_code)
    add_to_block ($0)
  if (after_tag)
    end_block ()
  after_tag = /^\.TP/
  next
}

# A page of Markdown, or plain text: paragraphs, items of lists, cells of tables.
/^ *```/ { in_code = !in_code; end_block (); next }
in_code { next }
/^ *\|/ {
  end_block ()
  n = split ($0, cells, "|")
  for (i = 1; i <= n; i++)
    look (FNR, cells[i])
  next
}
/^ *$/ || /^(#|    )/ { end_block (); next }
/^ *([-*]|[0-9]+\.) / { end_block () }
{ add_to_block ($0) }

END { end_block () }
