#include "client/url_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ranges>
#include <set>
#include <string>

namespace penstock::client {
namespace {

using ::testing::HasSubstr;

// Returns the mistake of a URL with this parameter, or an empty text. The version and the transport admit the
// parameter.
std::string MistakeOf(std::string_view name, std::string_view value) {
  const std::string before = name == "tcpport" ? "proto=rdma+tcp&" : "vers=4.1-sess01&proto=rdma&";
  const auto url = Url::Parse("nfs://host/?" + before + std::string(name) + std::string(value));
  return url ? "" : url.error().message;
}

TEST(UrlParameters, HaveNamesOfTheirOwnAndDescriptions) {
  std::set<std::string_view> names;
  for (const UrlParameter& parameter : UrlParameters()) {
    EXPECT_TRUE(names.insert(parameter.name).second) << parameter.name;
    EXPECT_TRUE(parameter.description.ends_with('.')) << parameter.name;
  }
}

TEST(UrlParameters, TheParserAcceptsEachValueThatTheTableNames) {
  for (const UrlParameter& parameter : UrlParameters()) {
    if (parameter.values.empty()) {
      EXPECT_EQ(MistakeOf(parameter.name, ""), "");
      EXPECT_THAT(MistakeOf(parameter.name, "=1"), HasSubstr("takes no value")) << parameter.name;
    } else if (parameter.values.contains('|')) {
      for (const auto value : std::views::split(parameter.values, '|')) {
        const std::string text(value.begin(), value.end());
        const std::string mistake = MistakeOf(parameter.name, "=" + text);
        // Some values contradict the others of this URL, but none is unknown.
        EXPECT_THAT(mistake, testing::Not(HasSubstr("must be"))) << parameter.name << "=" << text;
        EXPECT_THAT(mistake, testing::Not(HasSubstr("unknown"))) << parameter.name << "=" << text;
      }
      EXPECT_THAT(MistakeOf(parameter.name, "=other"), HasSubstr("must be")) << parameter.name;
    } else {
      const std::string_view good = parameter.name == "pad"         ? "=64"
                                    : parameter.values == "ADDRESS" ? "=::1"
                                    : parameter.name == "mountvers" ? "=3"
                                                                    : "=1";
      EXPECT_EQ(MistakeOf(parameter.name, good), "");
      if (parameter.values != "HOST")
        EXPECT_THAT(MistakeOf(parameter.name, "=word"), HasSubstr("must be")) << parameter.name;
    }
  }
}

TEST(UrlParameters, OtherNamesAreUnknown) {
  for (const std::string_view name : {"unmount", "color=1", "VERS"}) {
    EXPECT_THAT(MistakeOf(name, ""), HasSubstr("unknown option")) << name;
  }
}

}  // namespace
}  // namespace penstock::client
