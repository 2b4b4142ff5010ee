#include "client/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client/mount_test_support.h"

namespace penstock::client {
namespace {

using ::testing::HasSubstr;

class DoctorTest : public MountTestBase {
 protected:
  DoctorTest() : MountTestBase(TestService::Options{.exports = {"/data"}}) {}

  // Returns the step that fails. All before it succeed, and all after it are skipped.
  Step FailureAt(const Url& url, StepLimits limits = {}) {
    const std::vector<Step> steps = Run(Examine(loop, workers, url, options, limits));
    EXPECT_EQ(steps.size(), 6u);
    Step failure;
    bool failed = false;
    for (const Step& step : steps) {
      if (failed) {
        EXPECT_EQ(step.outcome, Step::Outcome::kSkipped) << step.name;
        EXPECT_EQ(step.detail + step.advice, "") << step.name;
      } else if (step.outcome == Step::Outcome::kFailed) {
        failed = true;
        failure = step;
      } else {
        EXPECT_EQ(step.outcome, Step::Outcome::kOk) << step.name;
        EXPECT_NE(step.detail, "") << step.name;
      }
    }
    return failure;
  }
};

TEST_F(DoctorTest, FindsNoFaultWithAFileThatCanBeRead) {
  Open(UrlOf(Version::k41, "/data"));
  const Node data = Do(mount->Resolve("data"));
  Do(Do(mount->CreateFile(data.handle, "file", 0644))->Close());
  Unmount();
  for (const Version version : {Version::k3, Version::k40, Version::k41, Version::k42}) {
    EXPECT_EQ(FailureAt(UrlOf(version, "/data/file")).name, "") << NameOf(version);
  }
}

TEST_F(DoctorTest, NamesTheExportsToWhomAsksForAnother) {
  const Step step = FailureAt(UrlOf(Version::k3, "/other"));
  EXPECT_EQ(step.name, "MOUNT");
  EXPECT_THAT(step.detail, HasSubstr("exports /data"));
  EXPECT_THAT(step.advice, HasSubstr("penstock showmount -e 127.0.0.1"));
}

TEST_F(DoctorTest, NamesThePathThatDoesNotExist) {
  for (const Version version : {Version::k3, Version::k42}) {
    const Step step = FailureAt(UrlOf(version, "/data/none"));
    EXPECT_EQ(step.name, "path");
    EXPECT_THAT(step.detail, HasSubstr("none: no such file or directory"));
  }
}

TEST_F(DoctorTest, NamesTheRightThatTheUserLacks) {
  Open(UrlOf(Version::k41, "/data"));
  const Node data = Do(mount->Resolve("data"));
  Do(Do(mount->CreateFile(data.handle, "secret", 0600))->Close());
  Unmount();
  Url url = UrlOf(Version::k3, "/data/secret");
  url.uid = url.gid = 4711;
  const Step step = FailureAt(url);
  EXPECT_EQ(step.name, "permission");
  EXPECT_THAT(step.detail, HasSubstr("/data/secret: permission denied"));
  EXPECT_THAT(step.advice, HasSubstr("no_root_squash"));
}

TEST_F(DoctorTest, NamesAVersionThatTheServerDoesNotHave) {
  service.FailOperation(nfs4::OP_EXCHANGE_ID, nfs4::nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH);
  const Step step = FailureAt(UrlOf(Version::k42, "/data"));
  EXPECT_EQ(step.name, "mount");
  EXPECT_THAT(step.advice, HasSubstr("does not speak this version"));
}

TEST_F(DoctorTest, WaitsForNoStepForLong) {
  const auto fails = [this](CallMatcher held, const Url& url, const std::string& name) {
    service.HoldCall(std::move(held), 100);
    const Step step = FailureAt(url, {.call = std::chrono::seconds(5), .step = std::chrono::milliseconds(300)});
    EXPECT_EQ(step.name, name);
    EXPECT_EQ(step.detail, "no answer within 0.3 s");
    EXPECT_NE(step.advice, "");
    EXPECT_LT(step.took, std::chrono::seconds(5));
  };
  fails(CallsOf<nfs3::NFSPROC3_ACCESS>(), UrlOf(Version::k3, "/data"), "permission");
  fails(CallsOf<nfs3::NFSPROC3_FSINFO>(), UrlOf(Version::k3, "/data"), "MOUNT");
  fails(CompoundsWith(nfs4::nfs_opnum4::OP_EXCHANGE_ID), UrlOf(Version::k42, "/data"), "mount");
}

}  // namespace
}  // namespace penstock::client
