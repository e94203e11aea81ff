<?xml version="1.0" encoding="UTF-8"?>
<!-- Tarn: memory pools for OpenCL and CUDA.
     SPDX-License-Identifier: MIT

     A manual page of section 3 for each function of the headers, from what Doxygen writes as XML:
     Doxygen's own pages are one for each file.  -->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"
                xmlns:exsl="http://exslt.org/common" extension-element-prefixes="exsl">
  <xsl:param name="version"/>
  <xsl:param name="date"/>
  <xsl:param name="output"/>  <!-- a folder, with a slash -->
  <xsl:output method="text" encoding="UTF-8"/>
  <xsl:strip-space elements="*"/>
  <xsl:preserve-space elements="para parametername type defname declname"/>

  <xsl:template match="/doxygenindex">
    <xsl:for-each select="compound[@kind='file' and substring(name, string-length(name) - 1) = '.h']">
      <xsl:apply-templates
          select="document(concat(@refid, '.xml'), .)//memberdef[@kind='function']" mode="page"/>
    </xsl:for-each>
  </xsl:template>

  <xsl:template match="memberdef" mode="page">
    <exsl:document href="{$output}{name}.3" method="text" encoding="UTF-8">
      <xsl:text>.\" Tarn: memory pools for OpenCL and CUDA.&#10;</xsl:text>
      <xsl:text>.\" SPDX-License-Identifier: MIT&#10;</xsl:text>
      <xsl:value-of select="concat('.TH ', name, ' 3 &quot;', $date, '&quot; &quot;Tarn ', $version,
                                   '&quot; &quot;Library Functions&quot;&#10;')"/>
      <xsl:text>.SH NAME&#10;</xsl:text>
      <xsl:value-of select="concat(name, ' \- ')"/>
      <xsl:variable name="brief"><xsl:apply-templates select="briefdescription"/></xsl:variable>
      <xsl:value-of select="concat(normalize-space($brief), '&#10;')"/>
      <xsl:call-template name="synopsis"/>
      <xsl:text>.SH DESCRIPTION&#10;</xsl:text>
      <xsl:value-of select="concat(normalize-space($brief), '&#10;')"/>
      <xsl:apply-templates select="detaileddescription/para" mode="block"/>
      <xsl:if test=".//parameterlist[@kind='param']">
        <xsl:text>.SH PARAMETERS&#10;</xsl:text>
        <xsl:apply-templates select=".//parameterlist[@kind='param']/parameteritem"/>
      </xsl:if>
      <xsl:if test=".//simplesect[@kind='return']">
        <xsl:text>.SH RETURN VALUE&#10;</xsl:text>
        <xsl:call-template name="line">
          <xsl:with-param name="of" select=".//simplesect[@kind='return']/para"/>
        </xsl:call-template>
      </xsl:if>
      <xsl:text>.SH HISTORY&#10;Since Tarn </xsl:text>
      <xsl:value-of select="concat(normalize-space(.//simplesect[@kind='since']), '.&#10;')"/>
      <xsl:call-template name="see-also"/>
    </exsl:document>
  </xsl:template>

  <xsl:template name="synopsis">
    <xsl:text>.SH SYNOPSIS&#10;.nf&#10;.B #include &lt;</xsl:text>
    <xsl:choose>
      <xsl:when test="contains(location/@declfile | location/@file, '/opencl.h')">tarn/opencl.h</xsl:when>
      <xsl:when test="contains(location/@declfile | location/@file, '/cuda.h')">tarn/cuda.h</xsl:when>
      <xsl:otherwise>tarn/tarn.h</xsl:otherwise>
    </xsl:choose>
    <xsl:text>&gt;&#10;.PP&#10;</xsl:text>
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
    <xsl:text>);&quot;&#10;.fi&#10;</xsl:text>
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

  <!-- The functions that the text names, and the overview. -->
  <xsl:template name="see-also">
    <xsl:variable name="self" select="name"/>
    <xsl:text>.SH SEE ALSO&#10;</xsl:text>
    <xsl:for-each select=".//para//ref[@kindref='member' and starts-with(., 'tarn_')]">
      <xsl:sort select="."/>
      <xsl:variable name="name" select="substring-before(concat(., '('), '(')"/>
      <xsl:if test="$name != $self and generate-id(.)
                    = generate-id(ancestor::memberdef//para//ref[@kindref='member'
                      and substring-before(concat(., '('), '(') = $name][1])">
        <xsl:value-of select="concat('.BR ', $name, ' (3),&#10;')"/>
      </xsl:if>
    </xsl:for-each>
    <xsl:text>.BR tarn (7)&#10;</xsl:text>
  </xsl:template>

  <!-- Text, code, text after it ...; parameters and the like, which Doxygen has inside of a
       paragraph, come later. -->
  <xsl:template match="para" mode="block">
    <xsl:call-template name="text">
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
    <xsl:variable name="text"><xsl:apply-templates select="$of"/></xsl:variable>
    <xsl:if test="normalize-space($text) != ''">
      <xsl:text>.PP&#10;</xsl:text>
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
