<?xml version="1.0" encoding="UTF-8"?>
<!-- Tarn: memory pools for OpenCL and CUDA.
     SPDX-License-Identifier: MIT

     A manual page of section 3 for each function, type and macro of the headers, from what Doxygen
     writes as XML: Doxygen's own pages are one for each file.  C++ has pages of HTML only.  How a type is declared is taken from
     the text of its header, the programlisting.  -->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"
                xmlns:exsl="http://exslt.org/common" extension-element-prefixes="exsl">
  <xsl:param name="version"/>
  <xsl:param name="date"/>
  <xsl:param name="output"/>  <!-- a folder, with a slash -->
  <xsl:output method="text" encoding="UTF-8"/>
  <xsl:strip-space elements="*"/>
  <xsl:preserve-space elements="para parametername type defname declname highlight"/>

  <!-- The headers and their structs in one tree, where a page finds those that it sends to. -->
  <xsl:variable name="parts">
    <xsl:for-each select="/doxygenindex/compound[(@kind='struct' or @kind='union')
        and not(contains(name, '::')) or @kind='file' and substring(name, string-length(name) - 1) = '.h']">
      <xsl:copy-of select="document(concat(@refid, '.xml'), .)/doxygen/compounddef"/>
    </xsl:for-each>
  </xsl:variable>
  <xsl:variable name="all" select="exsl:node-set($parts)/compounddef"/>
  <!-- A guard against a second inclusion is not documented. -->
  <xsl:variable name="pages" select="$all[@kind!='file']
      | $all[@kind='file']/sectiondef/memberdef[briefdescription/para]"/>
  <xsl:variable name="names" select="$pages/name | $pages/compoundname"/>

  <xsl:key name="codeline" match="codeline"
           use="concat(ancestor::compounddef/location/@file, ':', @lineno)"/>
  <!-- By the struct that they are for. -->
  <xsl:key name="initializer" use="briefdescription//ref[1]/@refid"
           match="memberdef[@kind='define' and substring(name, string-length(name) - 4) = '_INIT']"/>
  <!-- By the types that they take and give. -->
  <xsl:key name="function" match="memberdef[@kind='function']"
           use="type/ref/@refid | param/type/ref/@refid"/>

  <xsl:template match="/doxygenindex">
    <xsl:apply-templates select="$pages" mode="page"/>
  </xsl:template>

  <xsl:template match="memberdef | compounddef" mode="page">
    <exsl:document href="{$output}{name | compoundname}.3" method="text" encoding="UTF-8">
      <xsl:text>.\" Tarn: memory pools for OpenCL and CUDA.&#10;</xsl:text>
      <xsl:text>.\" SPDX-License-Identifier: MIT&#10;</xsl:text>
      <xsl:value-of select="concat('.TH ', name | compoundname, ' 3 &quot;', $date, '&quot; &quot;Tarn ',
                                   $version, '&quot; &quot;Library Functions&quot;&#10;')"/>
      <xsl:call-template name="name"/>
      <xsl:text>.SH SYNOPSIS&#10;.nf&#10;.B #include &lt;</xsl:text>
      <xsl:call-template name="header"/>
      <xsl:text>&gt;&#10;.PP&#10;</xsl:text>
      <xsl:apply-templates select="." mode="synopsis"/>
      <xsl:text>.fi&#10;.SH DESCRIPTION&#10;</xsl:text>
      <xsl:call-template name="line"><xsl:with-param name="of" select="briefdescription"/></xsl:call-template>
      <xsl:apply-templates select="detaileddescription/para" mode="block"/>
      <xsl:call-template name="sections"/>
      <xsl:text>.SH HISTORY&#10;Since Tarn </xsl:text>
      <xsl:value-of select="concat(normalize-space(detaileddescription//simplesect[@kind='since']),
                                   '.&#10;')"/>
      <xsl:call-template name="see-also"/>
    </exsl:document>
  </xsl:template>

  <!-- It is described with its struct. -->
  <xsl:template match="memberdef[@kind='define' and count(. | key('initializer',
                       briefdescription//ref[1]/@refid)) = count(key('initializer',
                       briefdescription//ref[1]/@refid))]" mode="page" priority="1">
    <exsl:document href="{$output}{name}.3" method="text" encoding="UTF-8">
      <xsl:value-of select="concat('.so man3/', briefdescription//ref[1], '.3&#10;')"/>
    </exsl:document>
  </xsl:template>

  <!-- As whatis prints it: no full stop, no capital, no font. -->
  <xsl:template name="name">
    <xsl:variable name="brief" select="normalize-space(briefdescription)"/>
    <xsl:variable name="rest">
      <xsl:call-template name="escape">
        <xsl:with-param name="text" select="substring($brief, 2, string-length($brief) - 2)"/>
      </xsl:call-template>
    </xsl:variable>
    <xsl:value-of select="concat('.SH NAME&#10;', name | compoundname)"/>
    <xsl:for-each select="key('initializer', @id)">
      <xsl:value-of select="concat(', ', name)"/>
    </xsl:for-each>
    <xsl:value-of select="concat(' \- ', translate(substring($brief, 1, 1),
                                 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz'),
                                 $rest, '&#10;')"/>
  </xsl:template>

  <xsl:template name="header">
    <xsl:choose>
      <xsl:when test="contains(location/@declfile | location/@file, '/opencl.h')">tarn/opencl.h</xsl:when>
      <xsl:when test="contains(location/@declfile | location/@file, '/testing/cuda.h')">tarn/testing/cuda.h</xsl:when>
      <xsl:when test="contains(location/@declfile | location/@file, '/testing.h')">tarn/testing.h</xsl:when>
      <xsl:when test="contains(location/@declfile | location/@file, '/cuda.h')">tarn/cuda.h</xsl:when>
      <xsl:otherwise>tarn/tarn.h</xsl:otherwise>
    </xsl:choose>
  </xsl:template>

  <xsl:template name="sections">
    <xsl:if test="detaileddescription//parameterlist[@kind='param']">
      <xsl:text>.SH PARAMETERS&#10;</xsl:text>
      <xsl:apply-templates select="detaileddescription//parameterlist[@kind='param']/parameteritem"/>
    </xsl:if>
    <xsl:if test="detaileddescription//simplesect[@kind='return']">
      <xsl:text>.SH RETURN VALUE&#10;</xsl:text>
      <xsl:call-template name="line">
        <xsl:with-param name="of" select="detaileddescription//simplesect[@kind='return']/para"/>
      </xsl:call-template>
    </xsl:if>
    <xsl:if test="sectiondef/memberdef">
      <xsl:text>.SH FIELDS&#10;</xsl:text>
      <xsl:apply-templates select="sectiondef/memberdef" mode="item"/>
    </xsl:if>
    <xsl:if test="enumvalue">
      <xsl:text>.SH VALUES&#10;</xsl:text>
      <xsl:apply-templates select="enumvalue" mode="item"/>
    </xsl:if>
  </xsl:template>

  <xsl:template match="memberdef[@kind='function']" mode="synopsis">
    <xsl:variable name="type"><xsl:call-template name="type"/></xsl:variable>
    <xsl:value-of select="concat('.BI &quot;', $type, name, ' (')"/>
    <xsl:for-each select="param">
      <xsl:call-template name="type"/>
      <xsl:if test="declname">
        <xsl:value-of select="concat('&quot; ', declname, ' &quot;')"/>
      </xsl:if>
      <xsl:if test="position() != last()">
        <xsl:text>,&quot;&#10;.BI &quot;    </xsl:text>
      </xsl:if>
    </xsl:for-each>
    <xsl:text>);&quot;&#10;</xsl:text>
  </xsl:template>

  <xsl:template match="memberdef[@kind='define']" mode="synopsis">
    <xsl:value-of select="concat('.B #define ', name)"/>
    <xsl:for-each select="param">
      <xsl:choose>
        <xsl:when test="position() = 1">(</xsl:when>
        <xsl:otherwise>, </xsl:otherwise>
      </xsl:choose>
      <xsl:value-of select="defname"/>
      <xsl:if test="position() = last()">)</xsl:if>
    </xsl:for-each>
    <xsl:text>&#10;</xsl:text>
  </xsl:template>

  <xsl:template match="memberdef | compounddef" mode="synopsis">
    <xsl:call-template name="declaration">
      <xsl:with-param name="number" select="number(location/@line)"/>
    </xsl:call-template>
  </xsl:template>

  <!-- The lines of the header from one on, without comments, to the end of the declaration. -->
  <xsl:template name="declaration">
    <xsl:param name="number"/>
    <xsl:variable name="line"><xsl:apply-templates mode="code"
        select="key('codeline', concat(location/@file, ':', $number))/highlight"/></xsl:variable>
    <xsl:variable name="code">
      <xsl:call-template name="trim"><xsl:with-param name="text" select="string($line)"/></xsl:call-template>
    </xsl:variable>
    <xsl:if test="$code != ''">
      <xsl:call-template name="lines"><xsl:with-param name="text" select="string($code)"/></xsl:call-template>
    </xsl:if>
    <xsl:if test="not(starts-with($code, '}') or self::memberdef[@kind='typedef'] and contains($code, ';'))">
      <xsl:call-template name="declaration">
        <xsl:with-param name="number" select="$number + 1"/>
      </xsl:call-template>
    </xsl:if>
  </xsl:template>

  <xsl:template name="trim">
    <xsl:param name="text"/>
    <xsl:choose>
      <xsl:when test="substring($text, string-length($text)) = ' '">
        <xsl:call-template name="trim">
          <xsl:with-param name="text" select="substring($text, 1, string-length($text) - 1)"/>
        </xsl:call-template>
      </xsl:when>
      <xsl:otherwise><xsl:value-of select="$text"/></xsl:otherwise>
    </xsl:choose>
  </xsl:template>

  <xsl:template match="highlight[@class='comment']" mode="code"/>
  <xsl:template match="sp" mode="code"><xsl:text> </xsl:text></xsl:template>
  <xsl:template match="text()" mode="code"><xsl:value-of select="."/></xsl:template>

  <!-- A field, or a value of an enumeration. -->
  <xsl:template match="memberdef | enumvalue" mode="item">
    <xsl:value-of select="concat('.TP&#10;.I ', name, '&#10;')"/>
    <xsl:call-template name="line">
      <xsl:with-param name="of" select="briefdescription | detaileddescription/para[1]"/>
    </xsl:call-template>
    <xsl:for-each select="detaileddescription/para[position() != 1]">
      <xsl:text>.IP&#10;</xsl:text>
      <xsl:call-template name="line"><xsl:with-param name="of" select="."/></xsl:call-template>
    </xsl:for-each>
  </xsl:template>

  <!-- As C is written here: a space after a name, none after a star. -->
  <xsl:template name="type">
    <xsl:variable name="type" select="normalize-space(type)"/>
    <xsl:value-of select="$type"/>
    <xsl:if test="$type != 'void' or name">
      <xsl:if test="substring($type, string-length($type)) != '*'">
        <xsl:text> </xsl:text>
      </xsl:if>
    </xsl:if>
  </xsl:template>

  <xsl:template match="parameteritem">
    <xsl:value-of select="concat('.TP&#10;.I ', parameternamelist/parametername, '&#10;')"/>
    <xsl:call-template name="line">
      <xsl:with-param name="of" select="parameterdescription/para"/>
    </xsl:call-template>
  </xsl:template>

  <!-- What the text names, the types of a function and the functions of a type, and the overview. -->
  <xsl:template name="see-also">
    <xsl:variable name="self" select="name | compoundname"/>
    <xsl:variable name="found">
      <xsl:for-each select="*[not(self::programlisting)]//ref">
        <to><xsl:value-of select="substring-before(concat(., '('), '(')"/></to>
      </xsl:for-each>
      <xsl:for-each select="key('function', @id)"><to><xsl:value-of select="name"/></to></xsl:for-each>
    </xsl:variable>
    <!-- Long names cannot be adjusted. -->
    <xsl:text>.SH SEE ALSO&#10;.ad l&#10;</xsl:text>
    <xsl:for-each select="exsl:node-set($found)/to[. = $names and . != $self
                          and not(. = preceding-sibling::to)]">
      <xsl:sort select="."/>
      <xsl:value-of select="concat('.BR ', ., ' (3),&#10;')"/>
    </xsl:for-each>
    <xsl:text>.BR tarn (7)&#10;</xsl:text>
  </xsl:template>

  <!-- Text, code, text after it ...; parameters and the like, which Doxygen has inside of a
       paragraph, come later.  The first text goes on where the first sentence, the brief, ended. -->
  <xsl:template match="para" mode="block">
    <xsl:call-template name="text">
      <xsl:with-param name="break" select="position() != 1"/>
      <xsl:with-param name="of" select="node()[not(preceding-sibling::verbatim)]"/>
    </xsl:call-template>
    <xsl:for-each select="verbatim">
      <xsl:variable name="code" select="generate-id()"/>
      <xsl:text>.PP&#10;.in +4n&#10;.nf&#10;</xsl:text>
      <xsl:call-template name="lines">
        <xsl:with-param name="text" select="string(.)"/>
      </xsl:call-template>
      <xsl:text>.fi&#10;.in&#10;</xsl:text>
      <xsl:call-template name="text">
        <xsl:with-param name="of"
            select="../node()[generate-id(preceding-sibling::verbatim[1]) = $code]"/>
      </xsl:call-template>
    </xsl:for-each>
  </xsl:template>

  <xsl:template name="text">
    <xsl:param name="of"/>
    <xsl:param name="break" select="true()"/>
    <xsl:variable name="text"><xsl:apply-templates select="$of"/></xsl:variable>
    <xsl:if test="normalize-space($text) != ''">
      <xsl:if test="$break">.PP&#10;</xsl:if>
      <xsl:call-template name="line"><xsl:with-param name="of" select="$of"/></xsl:call-template>
    </xsl:if>
  </xsl:template>

  <xsl:template name="line">
    <xsl:param name="of"/>
    <xsl:variable name="text"><xsl:apply-templates select="$of"/></xsl:variable>
    <xsl:variable name="whole" select="normalize-space($text)"/>
    <!-- roff would take the line for a request. -->
    <xsl:if test="starts-with($whole, '.') or starts-with($whole, &quot;'&quot;)">\&amp;</xsl:if>
    <xsl:value-of select="concat($whole, '&#10;')"/>
  </xsl:template>

  <xsl:template name="lines">
    <xsl:param name="text"/>
    <xsl:variable name="line" select="substring-before(concat($text, '&#10;'), '&#10;')"/>
    <xsl:if test="starts-with($line, '.') or starts-with($line, &quot;'&quot;)">\&amp;</xsl:if>
    <xsl:call-template name="escape"><xsl:with-param name="text" select="$line"/></xsl:call-template>
    <xsl:text>&#10;</xsl:text>
    <xsl:if test="normalize-space(substring-after($text, '&#10;')) != ''">
      <xsl:call-template name="lines">
        <xsl:with-param name="text" select="substring-after($text, '&#10;')"/>
      </xsl:call-template>
    </xsl:if>
  </xsl:template>

  <!-- Inside of paragraphs -->

  <xsl:template match="parameterlist | simplesect | verbatim"/>

  <xsl:template match="computeroutput">
    <xsl:text>\fI</xsl:text><xsl:apply-templates/><xsl:text>\fP</xsl:text>
  </xsl:template>

  <xsl:template match="text()">
    <xsl:call-template name="escape"><xsl:with-param name="text" select="."/></xsl:call-template>
  </xsl:template>

  <xsl:template name="escape">
    <xsl:param name="text"/>
    <xsl:choose>
      <xsl:when test="contains($text, '\')">
        <xsl:call-template name="escape">
          <xsl:with-param name="text" select="substring-before($text, '\')"/>
        </xsl:call-template>
        <xsl:text>\e</xsl:text>
        <xsl:call-template name="escape">
          <xsl:with-param name="text" select="substring-after($text, '\')"/>
        </xsl:call-template>
      </xsl:when>
      <xsl:when test="contains($text, '-')">
        <xsl:value-of select="concat(substring-before($text, '-'), '\-')"/>
        <xsl:call-template name="escape">
          <xsl:with-param name="text" select="substring-after($text, '-')"/>
        </xsl:call-template>
      </xsl:when>
      <xsl:otherwise><xsl:value-of select="$text"/></xsl:otherwise>
    </xsl:choose>
  </xsl:template>
</xsl:stylesheet>
