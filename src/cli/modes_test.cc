#include "cli/modes.h"

#include <gtest/gtest.h>

#include <optional>
#include <string_view>

namespace penstock::cli {
namespace {

std::optional<uint32_t> Changed(std::string_view text, uint32_t mode, bool is_directory = false, uint32_t umask = 022) {
  const auto change = ModeChange::Parse(text);
  if (!change) return std::nullopt;
  return change->Apply(mode, is_directory, umask);
}

TEST(ModeChange, AnOctalModeReplacesAllBits) {
  EXPECT_EQ(Changed("755", 04644), 0755u);
  EXPECT_EQ(Changed("0", 07777), 0u);
  EXPECT_EQ(Changed("4711", 0), 04711u);
}

TEST(ModeChange, SymbolicClausesChangeTheClassesThatTheyName) {
  EXPECT_EQ(Changed("u+x", 0644), 0744u);
  EXPECT_EQ(Changed("go-rwx", 0777), 0700u);
  EXPECT_EQ(Changed("u+x,g=rw", 0600), 0760u);
  EXPECT_EQ(Changed("a=r", 0777), 0444u);
  EXPECT_EQ(Changed("g=", 0777), 0707u);
  EXPECT_EQ(Changed("u=rw+x", 0), 0700u);
}

TEST(ModeChange, TheUmaskLimitsClausesWithoutAClass) {
  EXPECT_EQ(Changed("+w", 0444), 0644u);
  EXPECT_EQ(Changed("=rw", 0), 0644u);
  EXPECT_EQ(Changed("a+w", 0444), 0666u);
  EXPECT_EQ(Changed("-w", 0666), 0466u);
}

TEST(ModeChange, CopiesOneClassToAnother) {
  EXPECT_EQ(Changed("g=u", 0750), 0770u);
  EXPECT_EQ(Changed("o+g", 0641), 0645u);
}

TEST(ModeChange, AnXInCapitalsIsForDirectoriesAndPrograms) {
  EXPECT_EQ(Changed("a+X", 0644), 0644u);
  EXPECT_EQ(Changed("a+X", 0744), 0755u);
  EXPECT_EQ(Changed("a+X", 0644, true), 0755u);
}

TEST(ModeChange, SpecialBitsBelongToTheirClasses) {
  EXPECT_EQ(Changed("u+s", 0755), 04755u);
  EXPECT_EQ(Changed("g+s", 0755), 02755u);
  EXPECT_EQ(Changed("+t", 0755), 01755u);
  EXPECT_EQ(Changed("u-s", 06755), 02755u);
}

TEST(ModeChange, RejectsOtherTexts) {
  for (const char* text : {"", "u", "8", "77777", "u+x,", ",u+x", "u*x", "u+q", "rw", "u+ux"}) {
    EXPECT_EQ(Changed(text, 0644), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace penstock::cli
