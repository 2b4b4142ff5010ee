// What options of the URL change in a mount: its rights, its sizes and the place of MOUNT.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "client/mount_test_support.h"
#include "protocol/mount.h"

namespace penstock::client {
namespace {

using ::testing::HasSubstr;

class MountChoicesTest : public MountTestBase, public testing::WithParamInterface<Version> {
 protected:
  Url UrlWith(const std::string& options) const {
    Url url = UrlOf(GetParam());
    const Url chosen = *Url::Parse("nfs://h/?" + options);
    url.read_only = chosen.read_only;
    url.read_size = chosen.read_size;
    url.write_size = chosen.write_size;
    return url;
  }
};

INSTANTIATE_TEST_SUITE_P(Version, MountChoicesTest,
                         testing::Values(Version::k3, Version::k40, Version::k41, Version::k42),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(MountChoicesTest, ReadOnlyRefusesEachChangeWithoutACall) {
  Open(UrlOf(GetParam()));
  Do(Create("file", "text")->Close());
  Unmount();
  Open(UrlWith("ro"));
  const Node file = Do(mount->Lookup(root(), "file"));
  const auto opened = Do(mount->OpenFile(file, "file", Access::kRead));
  EXPECT_EQ(Read(*opened), "text");
  Do(opened->Close());
  NewAttributes mode;
  mode.mode = 0600;
  for (const Error& error :
       {ErrorOf(mount->OpenFile(file, "file", Access::kBoth)), ErrorOf(mount->CreateFile(root(), "new", 0644)),
        ErrorOf(mount->SetAttributes(file.handle, "file", mode)), ErrorOf(mount->MakeDirectory(root(), "new", 0755)),
        ErrorOf(mount->MakeSymlink(root(), "new", "file")), ErrorOf(mount->Link(file.handle, root(), "new")),
        ErrorOf(mount->Rename(root(), "file", root(), "new")), ErrorOf(mount->Remove(root(), "file"))}) {
    EXPECT_THAT(error.message, HasSubstr(": the option ro forbids changes"));
    EXPECT_EQ(error.status, Status::kReadOnly);
    EXPECT_EQ(error.number, EROFS);
  }
  EXPECT_EQ(List(), std::vector<std::string>{"file"});
}

TEST_P(MountChoicesTest, SizesLimitReadsAndWrites) {
  Open(UrlWith("rsize=4096&wsize=2048"));
  EXPECT_EQ(mount->sizes().read, 4096u);
  EXPECT_EQ(mount->sizes().write, 2048u);
  const auto file = Create("file");
  const auto written = Write(*file, std::string(5000, 'x'));
  ASSERT_TRUE(written);
  EXPECT_EQ(written->count, 2048u);
  Do(file->Close());
}

class MountPlaceTest : public MountTestBase {
 protected:
  MountPlaceTest() = default;
  explicit MountPlaceTest(TestService::Options of) : MountTestBase(std::move(of)) {}
  Url Searching() const {
    Url url = UrlOf(Version::k3);
    url.mount_port.reset();
    return url;
  }
};

TEST_F(MountPlaceTest, TheClientFindsMountAtThePortOfNfs) {
  Open(Searching());
  EXPECT_EQ(List(), std::vector<std::string>());
  EXPECT_EQ(service.CountCalls(CallsOf<mount3::MOUNTPROC3_MNT>()), 1u);
}

class MountlessTest : public MountPlaceTest {
 protected:
  MountlessTest() : MountPlaceTest(TestService::Options{.mount = false}) {}
};

TEST_F(MountlessTest, TheErrorNamesEachPlaceOfMountThatTheClientHasTried) {
  Url url = Searching();
  url.host = "127.0.0.1";
  const Error error = ErrorOfOpening(url);
  EXPECT_THAT(error.message, HasSubstr("MOUNT: 127.0.0.1: port " + std::to_string(service.port()) +
                                       ": no MOUNT: the server does not offer this service; port 20048: "));
  EXPECT_THAT(error.message, HasSubstr("; rpcbind: "));
}

}  // namespace
}  // namespace penstock::client
