<?xml version="1.0" encoding="UTF-8"?>
<!-- Tarn: memory pools for OpenCL and CUDA.
     SPDX-License-Identifier: MIT

     The list of search.md, from what Doxygen writes as XML: a link to each name and to each section of
     the guide, the first sentence beside it, and the rest, hidden, for the search. -->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"
                xmlns:exsl="http://exslt.org/common" exclude-result-prefixes="exsl">
  <xsl:output method="html" encoding="UTF-8" indent="no"/>

  <xsl:template match="/doxygenindex">
    <xsl:variable name="found">
      <xsl:for-each select="compound[@kind='struct' or @kind='union' or @kind='class'
          or @kind='namespace' or @kind='page'
          or @kind='file' and substring(name, string-length(name) - 1) = '.h']">
        <xsl:apply-templates select="document(concat(@refid, '.xml'), .)/doxygen/compounddef"/>
      </xsl:for-each>
    </xsl:variable>
    <!-- The guide last, in its own order. -->
    <xsl:for-each select="exsl:node-set($found)/li[not(@class)]">
      <xsl:sort select="a"/>
      <xsl:copy-of select="."/><xsl:text>&#10;</xsl:text>
    </xsl:for-each>
    <xsl:for-each select="exsl:node-set($found)/li[@class]">
      <xsl:copy-of select="."/><xsl:text>&#10;</xsl:text>
    </xsl:for-each>
  </xsl:template>

  <xsl:template match="compounddef[@kind='file']">
    <xsl:apply-templates select="sectiondef/memberdef[briefdescription/para]
                                 | sectiondef/memberdef/enumvalue"/>
  </xsl:template>

  <xsl:template match="compounddef[@kind='namespace']">
    <xsl:apply-templates select="sectiondef/memberdef[briefdescription/para]"/>
  </xsl:template>

  <xsl:template match="compounddef[@kind='struct' or @kind='union' or @kind='class']">
    <xsl:call-template name="entry">
      <xsl:with-param name="name" select="compoundname"/>
      <xsl:with-param name="href" select="concat(@id, '.html')"/>
    </xsl:call-template>
    <!-- Members that a class inherits have the id of the class that they are from. -->
    <xsl:apply-templates select="sectiondef/memberdef[@prot='public'
        and not(starts-with(name, '~')) and starts-with(@id, concat(../../@id, '_1'))]"/>
  </xsl:template>

  <xsl:template match="memberdef | enumvalue">
    <xsl:variable name="of" select="ancestor::compounddef"/>
    <!-- Where a struct has a union without a name, Doxygen gives no field a place of its own. -->
    <xsl:variable name="place">
      <xsl:if test="not(../memberdef[contains(type, '::@')])">
        <xsl:value-of select="concat('#', substring-after(@id, concat($of/@id, '_1')))"/>
      </xsl:if>
    </xsl:variable>
    <xsl:call-template name="entry">
      <xsl:with-param name="name">
        <xsl:choose>
          <xsl:when test="contains($of/compoundname, '::') or $of/@kind='namespace'">
            <xsl:value-of select="concat($of/compoundname, '::')"/>
          </xsl:when>
          <xsl:when test="@kind='variable'"><xsl:value-of select="concat($of/compoundname, '.')"/></xsl:when>
        </xsl:choose>
        <xsl:value-of select="name"/>
        <xsl:if test="@kind='function'"> ()</xsl:if>
      </xsl:with-param>
      <xsl:with-param name="href" select="concat($of/@id, '.html', $place)"/>
    </xsl:call-template>
  </xsl:template>

  <!-- Pages of the guide; the reference's own are where the reader is already. -->
  <xsl:template match="compounddef[@kind='page']"/>
  <xsl:template match="compounddef[@kind='page' and starts-with(@id, 'md_')]">
    <xsl:call-template name="section">
      <xsl:with-param name="href" select="concat(@id, '.html')"/>
    </xsl:call-template>
    <xsl:for-each select=".//sect1">
      <xsl:call-template name="section">
        <xsl:with-param name="href"
            select="concat(../../@id, '.html#', substring-after(@id, concat(../../@id, '_1')))"/>
      </xsl:call-template>
    </xsl:for-each>
  </xsl:template>

  <xsl:template name="section">
    <xsl:param name="href"/>
    <li class="guide">
      <a href="{$href}"><xsl:value-of select="title"/></a>
      <span class="brief">
        <xsl:text>guide</xsl:text>
        <xsl:if test="self::sect1"><xsl:value-of select="concat(': ', ../../title)"/></xsl:if>
      </span>
      <span hidden="hidden">
        <xsl:apply-templates select="para | detaileddescription/para | sect2" mode="words"/>
      </span>
    </li>
  </xsl:template>

  <xsl:template name="entry">
    <xsl:param name="name"/>
    <xsl:param name="href"/>
    <li>
      <a href="{$href}"><xsl:value-of select="$name"/></a>
      <span class="brief"><xsl:value-of select="normalize-space(briefdescription)"/></span>
      <span hidden="hidden"><xsl:apply-templates select="detaileddescription" mode="words"/></span>
    </li>
  </xsl:template>

  <xsl:template match="sp" mode="words"><xsl:text> </xsl:text></xsl:template>
  <xsl:template match="para | codeline | entry | listitem | title" mode="words">
    <xsl:apply-templates mode="words"/><xsl:text> </xsl:text>
  </xsl:template>
  <xsl:template match="text()" mode="words">
    <xsl:if test="starts-with(translate(., '&#10;', ' '), ' ')"><xsl:text> </xsl:text></xsl:if>
    <xsl:value-of select="normalize-space(.)"/>
    <xsl:if test="substring(translate(., '&#10;', ' '), string-length(.)) = ' '"><xsl:text> </xsl:text></xsl:if>
  </xsl:template>
</xsl:stylesheet>
