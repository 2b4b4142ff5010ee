#include "xdr/print.h"

#include <gtest/gtest.h>

#include "xdr/example.h"

namespace penstock::xdr {
namespace {

TEST(Print, ShowsMembersArmsAndValues) {
  example::file file;
  file.filename = "sillyprog";
  file.type = example::filetype(example::DATA, StringView<255>("john"));
  file.data = AsBytes("ab");
  EXPECT_EQ(Print(file),
            R"(file{filename="sillyprog", type=filetype{kind=DATA, creator="john"}, owner="", data=0x6162})");
}

TEST(Print, ShowsNumbersListsAndAbsentValues) {
  EXPECT_EQ(Print(Vector<int32_t, 3>{1, -2}), "[1, -2]");
  EXPECT_EQ(Print(std::optional<bool>()), "none");
  EXPECT_EQ(Print(std::optional<bool>(true)), "true");
  EXPECT_EQ(Print(1.5), "1.5");
  EXPECT_EQ(Print(example::by_number(1)), "by_number{which=1}");
  EXPECT_EQ(Print(static_cast<example::colour>(9)), "9");
  EXPECT_EQ(Print(Void()), "void");
}

TEST(Print, ShowsTheLengthOfPayloads) {
  EXPECT_EQ(Print(Payload<>::Borrowed("secret")), "<6 octets>");
  EXPECT_EQ(Print(Payload<>(Data(std::make_shared<const FileDescriptor>(-1), 0, 7))), "<7 octets of a file>");
}

TEST(Print, EscapesUnprintableOctets) {
  EXPECT_EQ(Print(StringView<255>("a\"\\\n\x1b[0m\xff")), R"("a\"\\\x0a\x1b[0m\xff")");
}

TEST(Print, TruncatesLongValues) {
  EXPECT_EQ(Print(StringView<255>(std::string(200, 'x'))), "\"" + std::string(80, 'x') + "...\"");
  const std::string octets(20, '\x11');
  EXPECT_EQ(Print(OpaqueView<400>(AsBytes(octets))), "0x11111111111111111111111111111111...[20]");
  EXPECT_EQ(Print(Vector<int32_t, kUnbounded>(100'000), 10), "[0, 0, 0, ...");
}

}  // namespace
}  // namespace penstock::xdr
