#include "idmap/owner_text.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace penstock::idmap {
namespace {

using std::string_view_literals::operator""sv;

TEST(NumberIn, ReadsDecimalIds) {
  EXPECT_EQ(NumberIn("0"), 0u);
  EXPECT_EQ(NumberIn("1000"), 1000u);
  EXPECT_EQ(NumberIn("4294967294"), 4294967294u);
}

// RFC 8881 §5.9
TEST(NumberIn, RejectsOtherTexts) {
  for (const std::string_view text : {""sv, "007"sv, "00"sv, "+1"sv, "-1"sv, " 1"sv, "1 "sv, "1x"sv, "0x10"sv, "1\0"sv,
                                      "4294967296"sv, "99999999999999999999"sv, "1@example.org"sv}) {
    EXPECT_EQ(NumberIn(text), std::nullopt) << text;
  }
}

// chown(2) would leave the owner unchanged and succeed.
TEST(NumberIn, RejectsTheNumberThatIsNoId) { EXPECT_EQ(NumberIn("4294967295"), std::nullopt); }

TEST(NameIn, ReturnsTheNameBeforeTheDomain) {
  EXPECT_EQ(NameIn("anna@example.org", "example.org"), "anna");
  EXPECT_EQ(NameIn("root@example.org", "example.org"), "root");
}

// RFC 1034 §3.1
TEST(NameIn, ComparesDomainsRegardlessOfCase) {
  EXPECT_EQ(NameIn("Anna@EXAMPLE.org", "example.ORG"), "Anna");
  EXPECT_EQ(NameIn("anna@example{org", "example[org"), std::nullopt);
}

// A directory service may have names with a realm of its own.
TEST(NameIn, TakesTheDomainBehindTheLastAt) {
  EXPECT_EQ(NameIn("anna@REALM@example.org", "example.org"), "anna@REALM");
  EXPECT_EQ(NameIn("anna@example.org@REALM", "example.org"), std::nullopt);
}

TEST(NameIn, RejectsOtherDomainsAndTextsWithoutOne) {
  for (const std::string_view text : {"anna"sv, "anna@"sv, "anna@example.com"sv, "anna@sub.example.org"sv, "nobody"sv,
                                      "12"sv, "anna@example.org "sv, ""sv}) {
    EXPECT_EQ(NameIn(text, "example.org"), std::nullopt) << text;
  }
  EXPECT_EQ(NameIn("anna@", ""), std::nullopt);
}

TEST(NameIn, RejectsNamesThatNobodyHas) {
  EXPECT_EQ(NameIn("@example.org", "example.org"), std::nullopt);
  EXPECT_EQ(NameIn("root\0x@example.org"sv, "example.org"), std::nullopt);  // C would read it as "root"
  EXPECT_EQ(NameIn(std::string(kMostNameOctets, 'n') + "@example.org", "example.org")->size(), kMostNameOctets);
  EXPECT_EQ(NameIn(std::string(kMostNameOctets + 1, 'n') + "@example.org", "example.org"), std::nullopt);
}

TEST(OwnerText, JoinsNameAndDomain) {
  EXPECT_EQ(OwnerText("anna", "example.org"), "anna@example.org");
  EXPECT_EQ(OwnerText("domain users", "example.org"), "domain users@example.org");
}

TEST(OwnerText, RejectsNamesThatTheProtocolCannotExpress) {
  EXPECT_EQ(OwnerText("\xe9mile", "example.org"), std::nullopt);  // Latin-1
  EXPECT_EQ(OwnerText("", "example.org"), std::nullopt);
  EXPECT_EQ(OwnerText(std::string(kMostNameOctets + 1, 'n'), "example.org"), std::nullopt);
}

TEST(IsDomain, AcceptsNamesOfDomains) {
  EXPECT_TRUE(IsDomain("example.org"));
  EXPECT_TRUE(IsDomain("localdomain"));
  EXPECT_TRUE(
      IsDomain("b\xc3\xbc"
               "cher.example"));
}

TEST(IsDomain, RejectsTextsThatAreNoDomain) {
  for (const std::string_view text :
       {""sv, "a@b"sv, "exa mple.org"sv, "example.org\n"sv, "\xff"sv, "a\0b"sv, "\x7f"sv}) {
    EXPECT_FALSE(IsDomain(text)) << text;
  }
  EXPECT_FALSE(IsDomain(std::string(kMostDomainOctets + 1, 'd')));
}

}  // namespace
}  // namespace penstock::idmap
