#include "client/url_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client/url.h"

namespace penstock::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;

Url With(const std::string& options) {
  auto url = Url::Parse("nfs://h/?" + options);
  EXPECT_TRUE(url) << url.error().message;
  return url ? *std::move(url) : Url();
}

std::string Complaint(const std::string& options) {
  const auto url = Url::Parse("nfs://h/?" + options);
  return url ? "" : url.error().message.substr(std::string("nfs://h/?").size() + options.size() + 2);
}

// ---- the options of nfs(5) ----

TEST(UrlOptions, TransferSizesAreRoundedAsNfs5Says) {
  EXPECT_EQ(With("").read_size, 0u);
  EXPECT_EQ(With("rsize=65536").read_size, 65536u);
  EXPECT_EQ(With("rsize=65537&wsize=2047").read_size, 65536u);
  EXPECT_EQ(With("rsize=65537&wsize=2047").write_size, 1024u);
  EXPECT_EQ(With("wsize=1023").write_size, 4096u);
  EXPECT_EQ(With("wsize=0").write_size, 4096u);
  EXPECT_EQ(With("wsize=4294967295").write_size, 1048576u);
}

TEST(UrlOptions, HardHasNoTimeLimit) {
  const RecoveryOptions hard = With("hard&retrans=1").recovery;
  EXPECT_EQ(hard.CallLimit(), kNoTimeLimit);
  EXPECT_EQ(hard.ReplyLimit(), seconds(60));
}

TEST(UrlOptions, SoftFailsAfterItsRepetitions) {
  EXPECT_EQ(With("soft").recovery.CallLimit(), seconds(180)) << "the defaults of nfs(5)";
  EXPECT_EQ(With("softerr&timeo=5&retrans=3").recovery.CallLimit(), seconds(2));
  EXPECT_EQ(With("soft&timeo=5&retrans=0").recovery.CallLimit(), milliseconds(500));
  EXPECT_EQ(With("soft&retrans=4294967295").recovery.CallLimit(), seconds(600));
  EXPECT_EQ(With("soft&timeo=4294967295").recovery.CallLimit(), seconds(600));
}

TEST(UrlOptions, TheLastOfTimeoutHardAndSoftCounts) {
  EXPECT_EQ(With("").recovery.CallLimit(), seconds(600));
  EXPECT_EQ(With("hard&timeout=7").recovery.CallLimit(), seconds(7));
  EXPECT_EQ(With("timeout=7&hard").recovery.CallLimit(), kNoTimeLimit);
  EXPECT_EQ(With("hard&soft&timeo=10").recovery.CallLimit(), seconds(3));
}

TEST(UrlOptions, ATimeLimitShortensEachKindOfRecovery) {
  for (const char* const kind : {"hard", "soft", "timeout=60"}) {
    RecoveryOptions recovery = With(kind).recovery;
    recovery.LimitTo(5);
    EXPECT_EQ(recovery.CallLimit(), seconds(5)) << kind;
  }
  RecoveryOptions shorter = With("timeout=2").recovery;
  shorter.LimitTo(5);
  EXPECT_EQ(shorter.CallLimit(), seconds(2));
}

TEST(UrlOptions, AttributeTimesOfNfs5) {
  EXPECT_EQ(With("").cache, CacheOptions());
  EXPECT_EQ(With("actimeo=7").cache,
            (CacheOptions{.file_min = 7, .file_max = 7, .directory_min = 7, .directory_max = 7}));
  EXPECT_EQ(With("acregmin=90").cache.file_max, 90u) << "the maximum is never below the minimum";
  EXPECT_EQ(With("acdirmax=10").cache.directory_min, 10u);
  EXPECT_FALSE(With("noac").cache.attributes);
  EXPECT_TRUE(With("noac&ac").cache.attributes);
  EXPECT_FALSE(With("nocto").cache.close_to_open);
  EXPECT_EQ(With("lookupcache=pos").cache.names, CacheOptions::Names::kPositive);
  EXPECT_EQ(With("lookupcache=none").cache.names, CacheOptions::Names::kNone);
}

TEST(UrlOptions, LockTakesPrecedenceOverLocalLock) {
  EXPECT_EQ(With("").locks, LockOptions());
  EXPECT_EQ(With("local_lock=flock").locks, (LockOptions{.flock_on_server = false, .posix_on_server = true}));
  EXPECT_EQ(With("local_lock=all").locks, (LockOptions{.flock_on_server = false, .posix_on_server = false}));
  EXPECT_EQ(With("nolock&local_lock=none").locks, (LockOptions{.flock_on_server = false, .posix_on_server = false}));
  EXPECT_EQ(With("lock&local_lock=posix").locks, LockOptions());
}

TEST(UrlOptions, TheMinorVersionCompletesVersionFour) {
  EXPECT_EQ(With("vers=4&minorversion=0").version, Version::k40);
  EXPECT_EQ(With("minorversion=2&vers=4").version, Version::k42);
  EXPECT_EQ(With("nfsvers=4.2").version, Version::k42);
  EXPECT_EQ(With("minorversion=2&vers=4.1").version, Version::k41) << "the last one counts";
  EXPECT_EQ(Complaint("vers=3&minorversion=1"), "minorversion needs vers=4");
}

TEST(UrlOptions, ProtocolsMayRestrictTheAddressFamily) {
  EXPECT_EQ(With("proto=tcp6").family, AddressFamily::kIpv6);
  EXPECT_EQ(With("proto=rdma6").protocol, Protocol::kRdma);
  EXPECT_EQ(With("proto=tcp6&proto=tcp").family, AddressFamily::kIpv4);
  EXPECT_EQ(With("rdma").family, AddressFamily::kIpv4);
  EXPECT_EQ(With("vers=3").family, AddressFamily::kAny) << "no transport is named";
  EXPECT_EQ(With("rdma").protocol, Protocol::kRdma);
  EXPECT_EQ(With("rdma&tcp").protocol, Protocol::kTcp);
}

TEST(UrlOptions, NamesThePlaceOfMount) {
  const Url url = With("mounthost=other&mountport=7&mountproto=udp&mountvers=3");
  EXPECT_EQ(url.mount_host, "other");
  EXPECT_EQ(url.mount_port, 7);
  EXPECT_TRUE(url.mount_over_udp);
  EXPECT_EQ(url.mount_family, AddressFamily::kIpv4);
  EXPECT_EQ(With("mountproto=tcp6").mount_family, AddressFamily::kIpv6);
  EXPECT_FALSE(With("proto=tcp6").mount_family) << "as for NFS";
  EXPECT_FALSE(With("mountport=0").mount_port);
  EXPECT_EQ(Complaint("mountvers=1"), "mountvers must be 3");
}

TEST(UrlOptions, PortZeroIsToBeFound) {
  EXPECT_TRUE(With("port=0").finds_port);
  EXPECT_EQ(With("port=0&rdma").port, 20049);
  EXPECT_FALSE(With("port=2049").finds_port);
}

TEST(UrlOptions, AcceptsALineOfFstab) {
  const Url url = With("ro&_netdev&noauto&x-systemd.automount&nosuid&noexec&bg&retry=5&rdirplus&nconnect=4");
  EXPECT_TRUE(url.read_only);
  EXPECT_TRUE(url.in_background);
  EXPECT_EQ(url.retry_for_minutes, 5u);
  EXPECT_EQ(With("bg").retry_for_minutes, std::nullopt);
  EXPECT_EQ(url.nconnect, 4u);
  EXPECT_THAT(url.file_system_flags, ElementsAre("nosuid", "noexec"));
}

TEST(UrlOptions, NamesTheNearestOption) {
  EXPECT_EQ(Complaint("rsise=1"), "unknown option 'rsise' (is rsize meant?)");
  EXPECT_EQ(Complaint("acregmim=1"), "unknown option 'acregmim' (is acregmin meant?)");
  EXPECT_EQ(Complaint("colour=blue"), "unknown option 'colour'");
  EXPECT_EQ(With("colour=blue&sloppy&rsize=1024").read_size, 1024u) << "sloppy ignores unknown options";
}

// ---- several sources ----

SetupResult<Url> Layered(const std::vector<UrlOption>& defaults, const std::string& text,
                         const std::vector<UrlOption>& overrides) {
  return Url::Parse(text, defaults, overrides);
}

TEST(UrlOptions, TheUrlReplacesDefaultsAndOverridesReplaceBoth) {
  const std::vector<UrlOption> defaults = Url::SplitOptions("vers=3,timeout=5,port=7", "file:1");
  const std::vector<UrlOption> overrides = Url::SplitOptions("timeout=9", "-o");
  const auto url = Layered(defaults, "nfs://h:8/?vers=4.2&timeout=6", overrides);
  ASSERT_TRUE(url) << url.error().message;
  EXPECT_EQ(url->version, Version::k42);
  EXPECT_EQ(url->recovery.timeout, 9u);
  EXPECT_EQ(url->port, 8);
  EXPECT_EQ(Layered(defaults, "nfs://h/", {})->port, 7);
}

TEST(UrlOptions, AMistakeNamesItsSource) {
  const auto url = Layered({}, "nfs://h/", Url::SplitOptions("soft,rsise=5", "-o"));
  ASSERT_FALSE(url);
  EXPECT_EQ(url.error().message, "-o rsise=5: unknown option 'rsise' (is rsize meant?)");
}

TEST(UrlOptions, AContradictionNamesTheSourceThatCausesIt) {
  const auto url = Layered(Url::SplitOptions("soft,xprtsec=tls", "config.toml:3:"), "nfs://h/?proto=rdma", {});
  ASSERT_FALSE(url);
  EXPECT_EQ(
      url.error().message,
      "nfs://h/?proto=rdma: xprtsec=tls needs proto=tcp: RDMA has no TLS; config.toml:3: xprtsec=tls asks for that");
}

TEST(UrlOptions, FindsTheHostOfAUrl) {
  EXPECT_EQ(Url::HostOf("nfs://[::1]:5/x?vers=9"), "::1");
  EXPECT_EQ(Url::HostOf("/x"), std::nullopt);
}

}  // namespace
}  // namespace penstock::client
