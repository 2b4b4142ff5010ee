#include "idmap/domain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <latch>
#include <memory>

#include "base/test_log.h"

namespace penstock::idmap {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST(DomainIn, ReadsTheSectionGeneral) {
  EXPECT_EQ(DomainIn("[General]\nDomain = example.org\n"), "example.org");
  EXPECT_EQ(DomainIn("[General]\nVerbosity = 0\n\nDomain=example.org\n[Mapping]\nNobody-User = nobody\n"),
            "example.org");
  EXPECT_EQ(DomainIn("[Mapping]\nDomain = example.com\n[General]\nDomain = example.org"), "example.org");
  EXPECT_EQ(DomainIn("[General]\nDomain = example.org\n[Mapping]\nDomain = example.com\n"), "example.org");
}

// The form as libnfsidmap 2.6 reads it.
TEST(DomainIn, IgnoresCaseBlanksAndComments) {
  EXPECT_EQ(DomainIn("[general]\nDOMAIN=example.org\n"), "example.org");
  EXPECT_EQ(DomainIn(" [ General ] more\r\n\tdomain\t=\texample.org \t\r\n"), "example.org");
  EXPECT_EQ(DomainIn("[General]\nDomain = example.org # ours\n"), "example.org");
  EXPECT_EQ(DomainIn("[General]\nDomain = example.org;ours\n"), "example.org");
  EXPECT_EQ(DomainIn("[General]\nDomain = \"example.org\"\n"), "example.org");
  EXPECT_EQ(DomainIn("[General]\nDomain = 'example.org' # ours\n"), "example.org");
  EXPECT_EQ(DomainIn("[General]\nDomain = \\\n  example.org\n"), "example.org");
}

TEST(DomainIn, TheLastValueCounts) {
  EXPECT_EQ(DomainIn("[General]\nDomain = a.org\nDomain = b.org\n"), "b.org");
  EXPECT_EQ(DomainIn("[General]\nDomain = a.org\n[Mapping]\n[General]\nDomain = b.org\n"), "b.org");
  EXPECT_EQ(DomainIn("[General]\nDomain = a.org\nDomain =\n"), "a.org");
}

TEST(DomainIn, FindsNoneInOtherTexts) {
  for (const std::string_view text :
       {"", "\n", "[General]\n", "Domain = example.org\n", "[General]\n# Domain = example.org\n",
        "[General]\n;Domain = example.org\n", "[General]\nDomain\n", "[General]\nDomain : example.org\n",
        "[General]\nDomain =\n", "[General]\nDomain = # none\n", "[General]\nDomain = \"example.org\n",
        "[General\nDomain = example.org\n", "[General \"x\"]\nDomain = example.org\n",
        "[General]\nMyDomain = example.org\n", "[General]\nDomains = example.org\n", "[", "[General]\n\\"}) {
    EXPECT_EQ(DomainIn(text), std::nullopt) << text;
  }
}

class FindDomainTest : public testing::Test {
 protected:
  FindDomainTest() {
    char name[] = "/tmp/penstock-domain-test-XXXXXX";
    folder = ::mkdtemp(name);
    sources.configuration = folder / "idmapd.conf";
    sources.full_host_name = [] { return "host.lab.example.org"; };
  }
  ~FindDomainTest() override { std::filesystem::remove_all(folder); }

  void Write(const std::filesystem::path& name, std::string_view text) {
    std::filesystem::create_directories((folder / name).parent_path());
    std::ofstream(folder / name) << text;
  }
  std::string Found() { return FindDomain(sources).name; }

  std::filesystem::path folder;
  DomainSources sources;
  CapturedLog log;
};

TEST_F(FindDomainTest, TheConfigurationComesFirst) {
  Write("idmapd.conf", "[General]\nDomain = example.com\n");
  EXPECT_EQ(Found(), "example.com");
  EXPECT_EQ(FindDomain(sources).origin, sources.configuration.string());
  EXPECT_THAT(log.text(), IsEmpty());
}

TEST_F(FindDomainTest, FilesOfTheFolderReplaceValuesInTheirOrder) {
  Write("idmapd.conf", "[General]\nDomain = example.com\n");
  Write("idmapd.conf.d/9.conf", "[General]\nDomain = nine.org\n");
  Write("idmapd.conf.d/10.conf", "[General]\nDomain = ten.org\n");
  Write("idmapd.conf.d/20.conf", "[General]\nVerbosity = 1\n");
  Write("idmapd.conf.d/30.conf.bak", "[General]\nDomain = bak.org\n");
  Write("idmapd.conf.d/.40.conf", "[General]\nDomain = hidden.org\n");
  EXPECT_EQ(Found(), "ten.org");
  EXPECT_EQ(FindDomain(sources).origin, folder / "idmapd.conf.d/10.conf");
  std::filesystem::remove(sources.configuration);
  EXPECT_EQ(Found(), "ten.org");
}

TEST_F(FindDomainTest, TheNameOfTheHostComesNext) {
  Write("idmapd.conf", "[General]\n# Domain = example.com\n");
  EXPECT_EQ(Found(), "lab.example.org");
  EXPECT_EQ(FindDomain(sources).origin, "the name of this host");
  std::filesystem::remove(sources.configuration);
  EXPECT_EQ(Found(), "lab.example.org");
  sources.full_host_name = [] { return "host.example.org."; };
  EXPECT_EQ(Found(), "example.org");
  EXPECT_THAT(log.text(), IsEmpty());
}

TEST_F(FindDomainTest, TheDefaultComesLast) {
  for (const char* name : {"host", "host.", ".", "host.a b", ""}) {
    sources.full_host_name = [name] { return name; };
    EXPECT_EQ(Found(), "localdomain") << name;
  }
  sources.full_host_name = [] { return std::nullopt; };
  EXPECT_EQ(Found(), "localdomain");
  EXPECT_EQ(FindDomain(sources).origin, "the default");
}

TEST_F(FindDomainTest, WarnsOfAValueThatIsNoDomain) {
  Write("idmapd.conf", "[General]\nDomain = me@example.org\n");
  EXPECT_EQ(Found(), "lab.example.org");
  EXPECT_THAT(log.text(), HasSubstr(sources.configuration.string()));
}

TEST_F(FindDomainTest, WarnsOfAFileThatCannotBeRead) {
  std::filesystem::create_directory(sources.configuration);
  EXPECT_EQ(Found(), "lab.example.org");
  EXPECT_THAT(log.text(), HasSubstr(sources.configuration.string()));
}

TEST_F(FindDomainTest, DoesNotWaitForADnsServerForLong) {
  const auto may_end = std::make_shared<std::latch>(1);
  const auto ended = std::make_shared<std::latch>(1);
  sources.patience = std::chrono::milliseconds(1);
  // A thread that is slow to start never calls the function, so the end of the function counts, not its return.
  std::shared_ptr<const void> owned(nullptr, [ended](const void*) { ended->count_down(); });
  sources.full_host_name = [may_end, kept = std::move(owned)]() -> std::optional<std::string> {
    may_end->wait();
    return "host.late.org";
  };
  EXPECT_EQ(Found(), "localdomain");
  EXPECT_THAT(log.text(), HasSubstr("localdomain"));
  may_end->count_down();
  sources.full_host_name = {};
  ended->wait();
}

}  // namespace
}  // namespace penstock::idmap
