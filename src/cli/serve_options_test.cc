#include "cli/serve_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/test_parser.h"

namespace penstock::cli {
namespace {

std::vector<Finding> findings;

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Parsed<ServeOptions> Parse(std::vector<std::string> arguments) {
  return ParseWith(&AddServeOptions, std::move(arguments));
}

// Expects that the parser refuses `option` with `value`, with this exit code and a message that names the option.
void ExpectRefused(const std::string& option, const std::string& value, CLI::ExitCodes code) {
  const auto parsed = Parse({option + "=" + value, "/srv"});
  EXPECT_EQ(parsed.code, static_cast<int>(code)) << option << "=" << value << ": " << parsed.message;
  EXPECT_THAT(parsed.message, HasSubstr(option)) << value;
}

TEST(ServeOptions, TheDefaultsServeThisHostOnTheStandardPorts) {
  const auto parsed = Parse({"/srv"});
  ASSERT_EQ(parsed.code, 0) << parsed.message;
  const auto server = ServerOptionsOf(parsed.options);
  ASSERT_TRUE(server);
  const IpAddress loopback = asio::ip::address_v4::loopback();
  EXPECT_THAT(server->listen.tcp, ElementsAre(SocketAddress(loopback, 2049)));
  EXPECT_THAT(server->listen.rdma, ElementsAre(SocketAddress(loopback, 20049)));
  EXPECT_THAT(server->listen.mount, ElementsAre(SocketAddress(loopback, 20048)));
  EXPECT_EQ(server->rpcbind, server::Registration::kAuto);
  EXPECT_FALSE(server->port_mapper);
  EXPECT_EQ(server->port_mapper_port, 111);
  EXPECT_GE(server->threads, 1u);
  EXPECT_EQ(server->memory, 0u);
  EXPECT_FALSE(server->nfs2);
  EXPECT_EQ(server->nfs4.lease, 90s);
  EXPECT_EQ(server->nfs4.grace, 90s);
  EXPECT_TRUE(server->nfs4.delegations);
  EXPECT_EQ(server->nfs4.max_delegations, 131072u);
  EXPECT_TRUE(server->iwarp.crc);
  EXPECT_FALSE(server->manage_gids);
  EXPECT_TRUE(server->ccm_from.empty());
  EXPECT_EQ(server->rdma.kind, rdma::Kind::kAuto);
}

TEST(ServeOptions, TheLevelsOfTheLogApplyInTheirOrderAfterTheUsualOne) {
  const auto parsed =
      Parse({"/srv", "--log-format=json", "--log-level=error", "--log-level", "rpc=debug", "--log-level=tcp=info"});
  ASSERT_EQ(parsed.code, 0) << parsed.message;
  const LogSettings settings = LogSettingsOf(parsed.options, log::Level::kInfo);
  EXPECT_EQ(settings.format, LogFormat::kJson);
  std::vector<std::pair<std::string, log::Level>> levels;
  for (const LogLevelSetting& each : settings.levels) levels.emplace_back(each.module, each.least);
  const std::vector<std::pair<std::string, log::Level>> expected{
      {"", log::Level::kInfo}, {"", log::Level::kError}, {"rpc", log::Level::kDebug}, {"tcp", log::Level::kInfo}};
  EXPECT_EQ(levels, expected);
}

TEST(ServeOptions, WithoutOptionsTheLogHasTheUsualLevelAndTheFormatForStderr) {
  const LogSettings settings = LogSettingsOf(ServeOptions(), log::Level::kDebug);
  EXPECT_EQ(settings.format, FormatForStderr());
  ASSERT_EQ(settings.levels.size(), 1u);
  EXPECT_EQ(settings.levels[0].least, log::Level::kDebug);
}

TEST(ServeOptions, EachOptionReachesTheServersSettings) {
  const auto parsed = Parse({"/srv",
                             "--listen=::1",
                             "--listen=192.0.2.1",
                             "--tcp-port=1",
                             "--rdma-port=65535",
                             "--mount-port=0",
                             "--threads=3",
                             "--workers=5",
                             "--state-dir=/state",
                             "--max-connections=7",
                             "--max-connections-per-address=2",
                             "--idle-limit=0.5",
                             "--memory=48MiB",
                             "--stall-limit=1.25",
                             "--crc=off",
                             "--trace=capture",
                             "--nfs2",
                             "--lease=12",
                             "--grace=0",
                             "--no-delegations",
                             "--max-delegations=4711",
                             "--inter-server-copy",
                             "--nfs4-domain=example.org",
                             "--nfs4-names",
                             "--keytab=/keys",
                             "--ccm-from=10.0.0.0/8,fd00::/8",
                             "--ccm-from=192.0.2.1",
                             "--manage-gids",
                             "--rdma=iwarp",
                             "--rdma-device=siw0",
                             "--sess01=tcp",
                             "--sess01-pad=512"});
  ASSERT_EQ(parsed.code, 0) << parsed.message;
  EXPECT_EQ(parsed.options.workers, 5u);
  EXPECT_EQ(parsed.options.state_directory, "/state");
  const auto server = ServerOptionsOf(parsed.options);
  ASSERT_TRUE(server);
  const IpAddress loopback = asio::ip::address_v6::loopback();
  const IpAddress other = asio::ip::make_address("192.0.2.1");
  EXPECT_THAT(server->listen.tcp, ElementsAre(SocketAddress(loopback, 1), SocketAddress(other, 1)));
  EXPECT_THAT(server->listen.rdma, ElementsAre(SocketAddress(loopback, 65535), SocketAddress(other, 65535)));
  EXPECT_THAT(server->listen.mount, ElementsAre(SocketAddress(loopback, 0), SocketAddress(other, 0)));
  EXPECT_EQ(server->threads, 3u);
  EXPECT_EQ(server->connections.connections, 7u);
  EXPECT_EQ(server->connections.per_address, 2u);
  EXPECT_EQ(server->connections.idle_limit, 500ms);
  EXPECT_EQ(server->memory, size_t{48} << 20);
  EXPECT_EQ(server->stall_limit, 1250ms);
  EXPECT_FALSE(server->iwarp.crc);
  EXPECT_EQ(server->trace, "capture");
  EXPECT_TRUE(server->nfs2);
  EXPECT_EQ(server->nfs4.lease, 12s);
  EXPECT_EQ(server->nfs4.grace, 0s);
  EXPECT_FALSE(server->nfs4.delegations);
  EXPECT_EQ(server->nfs4.max_delegations, 4711u);
  EXPECT_TRUE(server->nfs4.inter_server_copy);
  EXPECT_EQ(server->nfs4.domain, "example.org");
  EXPECT_TRUE(server->nfs4.names_for_all);
  EXPECT_EQ(server->keytab, "/keys");
  ASSERT_EQ(server->ccm_from.size(), 3u);
  EXPECT_EQ(server->ccm_from[0].ToString(), "10.0.0.0/8");
  EXPECT_EQ(server->ccm_from[1].ToString(), "fd00::/8");
  EXPECT_EQ(server->ccm_from[2].ToString(), "192.0.2.1/32");
  EXPECT_TRUE(server->manage_gids);
  EXPECT_EQ(server->rdma.kind, rdma::Kind::kIwarp);
  EXPECT_EQ(server->rdma.device, "siw0");
  EXPECT_EQ(server->padding, 512u);
}

TEST(ServeOptions, NoDomainDiffersFromOneThatIsToBeFound) {
  EXPECT_EQ(*ParseDomain(Parse({"/srv"}).options.nfs4_domain), std::nullopt);
  const auto parsed = Parse({"/srv", "--nfs4-domain=none"});
  ASSERT_EQ(parsed.code, 0) << parsed.message;
  EXPECT_EQ(*ParseDomain(parsed.options.nfs4_domain), "");
  const auto server = ServerOptionsOf(parsed.options);
  ASSERT_TRUE(server);
  EXPECT_EQ(server->nfs4.domain, "");
  EXPECT_FALSE(server->nfs4.names_for_all);
}

TEST(ServeOptions, RejectsDomainsThatAreNone) {
  for (const char* domain : {"me@example.org", "example org", "example.org\n", ""}) {
    const auto server = ServerOptionsOf(Parse({"/srv", "--nfs4-domain", domain}).options);
    ASSERT_FALSE(server) << domain;
    EXPECT_THAT(server.error().message, HasSubstr("--nfs4-domain"));
  }
  const auto none = ServerOptionsOf(Parse({"/srv", "--nfs4-domain=none", "--nfs4-names"}).options);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("--nfs4-names"));
}

TEST(ServeOptions, ZeroThreadsMeansOneForEachProcessor) {
  ServeOptions options;
  options.threads = 0;
  const auto server = ServerOptionsOf(options);
  ASSERT_TRUE(server);
  EXPECT_EQ(server->threads, std::max(1u, std::thread::hardware_concurrency()));
}

TEST(ServeOptions, RefusesNumbersOutsideTheirRange) {
  const std::pair<std::string, std::vector<std::string>> ranges[] = {
      {"--workers", {"0", "1025", "-1"}},
      {"--max-connections", {"0", "1048577"}},
      {"--max-connections-per-address", {"-1", "1048577"}},
      {"--threads", {"1025", "4294967295"}},
      {"--idle-limit", {"-0.1", "86401", "nan"}},
      {"--memory", {"0", "31MiB", "33554431", "2048TiB"}},
      {"--stall-limit", {"0", "0.09", "86401", "nan"}},
      {"--lease", {"0", "0.9", "3601", "nan", "inf"}},
      {"--grace", {"-1", "3601", "-nan"}},
      {"--max-delegations", {"0", "-1", "786433", "4294967296"}},
      {"--sess01-pad", {"-1", "1", "32", "100", "8192", "4294967296", "64k", ""}},
  };
  for (const auto& [option, values] : ranges) {
    for (const std::string& value : values) ExpectRefused(option, value, CLI::ExitCodes::ValidationError);
  }
}

TEST(ServeOptions, AcceptsBothEndsOfEachRange) {
  const std::vector<std::string> ends[] = {
      {"--workers=1", "--max-connections=1", "--max-connections-per-address=0", "--idle-limit=0", "--memory=32MiB",
       "--stall-limit=0.1", "--lease=1", "--grace=0", "--max-delegations=1", "--sess01-pad=64"},
      {"--threads=1024", "--workers=1024", "--max-connections=1048576", "--max-connections-per-address=1048576",
       "--idle-limit=86400", "--memory=1024TiB", "--stall-limit=86400", "--lease=3600", "--grace=3600",
       "--max-delegations=786432", "--sess01-pad=4096"},
  };
  for (const std::vector<std::string>& arguments : ends) {
    const auto parsed = Parse(arguments);
    EXPECT_EQ(parsed.code, 0) << parsed.message;
  }
}

TEST(ServeOptions, ChoosesHowClientsFindThePorts) {
  const auto settings = [](std::vector<std::string> arguments) {
    arguments.emplace_back("/srv");
    const auto parsed = Parse(arguments);
    EXPECT_EQ(parsed.code, 0) << parsed.message;
    return ServerOptionsOf(parsed.options);
  };
  EXPECT_EQ(settings({"--rpcbind=off"})->rpcbind, server::Registration::kOff);
  EXPECT_EQ(settings({"--rpcbind=required"})->rpcbind, server::Registration::kRequired);
  EXPECT_TRUE(settings({"--portmap"})->port_mapper);
  const auto both = settings({"--portmap", "--rpcbind=required"});
  ASSERT_FALSE(both);
  EXPECT_THAT(both.error().message, HasSubstr("--portmap"));
  ExpectRefused("--rpcbind", "yes", CLI::ExitCodes::ValidationError);
}

TEST(ServeOptions, RefusesTextInPlaceOfANumber) {
  for (const std::string option : {"--tcp-port", "--rdma-port", "--mount-port"}) {
    for (const std::string value : {"nfs", "20x", "1.5", "-1"}) {
      ExpectRefused(option, value, CLI::ExitCodes::ConversionError);
    }
  }
  for (const std::string option :
       {"--threads", "--workers", "--max-connections", "--idle-limit", "--stall-limit", "--lease", "--grace"}) {
    for (const std::string value : {"many", "1x"}) ExpectRefused(option, value, CLI::ExitCodes::ValidationError);
  }
}

TEST(ServeOptions, RefusesPortsThatDoNotFitSixteenBits) {
  for (const std::string option : {"--tcp-port", "--rdma-port", "--mount-port"}) {
    ExpectRefused(option, "65536", CLI::ExitCodes::ConversionError);
    ExpectRefused(option, "4294967296", CLI::ExitCodes::ConversionError);
  }
}

TEST(ServeOptions, ReadsTheUnitOfMemory) {
  for (const auto& [text, size] : {std::pair("33554432", uint64_t{32} << 20), std::pair("64MiB", uint64_t{64} << 20),
                                   std::pair("64mb", uint64_t{64} << 20), std::pair("1G", uint64_t{1} << 30)}) {
    const auto parsed = Parse({"--memory", text});
    EXPECT_EQ(parsed.code, 0) << parsed.message;
    EXPECT_EQ(parsed.options.memory, size) << text;
  }
  ExpectRefused("--memory", "64XB", CLI::ExitCodes::ValidationError);
  ExpectRefused("--memory", "MiB", CLI::ExitCodes::ValidationError);
}

TEST(ServeOptions, RefusesACrcThatIsNeitherOnNorOff) {
  EXPECT_TRUE(Parse({"--crc=on"}).options.crc);
  EXPECT_FALSE(Parse({"--crc=off"}).options.crc);
  ExpectRefused("--crc", "maybe", CLI::ExitCodes::ConversionError);
}

TEST(ServeOptions, RefusesUnknownOptionsAndASecondDirectory) {
  for (const std::string extra : {"--colour", "/second"}) {
    const auto parsed = Parse({"/srv", extra});
    EXPECT_EQ(parsed.code, static_cast<int>(CLI::ExitCodes::ExtrasError)) << extra;
    EXPECT_THAT(parsed.message, HasSubstr(extra));
  }
}

TEST(ServeOptions, TheHelpDoesNotMentionTheOptionsForTests) {
  EXPECT_EQ(Parse({"--faults=x"}).options.faults, "x");
  EXPECT_EQ(ServerOptionsOf(Parse({"--kept-octets=7"}).options)->nfs4.max_kept_octets, 7u);
  const auto help = Parse({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.message, HasSubstr("--state-dir"));
  EXPECT_THAT(help.message, ::testing::Not(HasSubstr("--faults")));
  EXPECT_THAT(help.message, ::testing::Not(HasSubstr("--kept-octets")));
}

TEST(ServeOptions, RefusesAListenAddressThatIsNoIpAddress) {
  for (const std::string address : {"", "localhost", "256.0.0.1", "1.2.3", "127.0.0.1:2049", "[::1]", "10.0.0.0/8"}) {
    ServeOptions options;
    options.listen.all = {address};
    const auto server = ServerOptionsOf(options);
    ASSERT_FALSE(server) << address;
    EXPECT_EQ(server.error().message, "--listen " + address + ": not an IP address");
  }
}

TEST(ServeOptions, RefusesAProtectedNetworkThatIsNone) {
  for (const std::string network : {"localhost", "10.0.0.0/33", "10.0.0.0/8;fd00::/8", ""}) {
    const auto parsed = Parse({"--ccm-from=192.0.2.1," + network, "/srv"});
    ASSERT_EQ(parsed.code, 0) << parsed.message;
    EXPECT_EQ(parsed.options.directory, "/srv");
    const auto server = ServerOptionsOf(parsed.options);
    ASSERT_FALSE(server) << network;
    EXPECT_EQ(server.error().message, "--ccm-from " + network + ": not an address or a network such as 10.0.0.0/8");
  }
}

TEST(ServeOptions, RefusesAnEmptyElementInAListOfProtectedNetworks) {
  for (const std::string list : {"", "10.0.0.0/8,,fd00::/8", ",10.0.0.0/8"}) {
    ServeOptions options;
    options.ccm_from = {list};
    const auto server = ServerOptionsOf(options);
    ASSERT_FALSE(server) << list;
    EXPECT_EQ(server.error().message, "--ccm-from : not an address or a network such as 10.0.0.0/8");
  }
}

TEST(ServeOptions, RefusesPaddingWithoutSessionsThatHaveIt) {
  ServeOptions options;
  options.sess01_pad = 512;
  const auto server = ServerOptionsOf(options);
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().message, "--sess01-pad needs --sess01=tcp or --sess01=rdma");
  options.sess01 = "tcp";
  EXPECT_TRUE(ServerOptionsOf(options));
}

TEST(ServeOptions, AnswersMonitorsOnLoopbackUnlessAnAddressIsNamed) {
  EXPECT_FALSE(ServerOptionsOf(Parse({}).options)->metrics);
  const auto metrics = [](std::string text) { return ServerOptionsOf(Parse({"--metrics", text}).options)->metrics; };
  EXPECT_EQ(metrics("9469"), SocketAddress(asio::ip::make_address("127.0.0.1"), 9469));
  EXPECT_EQ(metrics("10.0.0.1:9469"), SocketAddress(asio::ip::make_address("10.0.0.1"), 9469));
  EXPECT_EQ(metrics("[::1]:9469"), SocketAddress(asio::ip::make_address("::1"), 9469));
  const auto wrong = ServerOptionsOf(Parse({"--metrics", "localhost"}).options);
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, HasSubstr("--metrics: \"localhost\" is not [ADDRESS:]PORT"));
}

TEST(ServeOptions, RequiresADirectoryOrAnExport) {
  const auto exports = ExportsOf(Parse({}).options, findings);
  ASSERT_FALSE(exports);
  EXPECT_EQ(exports.error().message, "serve: name a directory, an --export PATH=DIR, or a table of --exports");
}

TEST(ServeOptions, ServesTheDirectoryAsTheRootAndThenTheExportsInOrder) {
  const auto parsed = Parse({"/srv", "--export", "/b=/srv/b:ro", "--export=/a=relative"});
  ASSERT_EQ(parsed.code, 0) << parsed.message;
  const auto exports = ExportsOf(parsed.options, findings);
  ASSERT_TRUE(exports) << exports.error().message;
  ASSERT_EQ(exports->size(), 3u);
  EXPECT_EQ(exports->at(0).path, "/");
  EXPECT_EQ(exports->at(0).directory, "/srv");
  EXPECT_FALSE(exports->at(0).admissions[0].options.read_only);
  EXPECT_EQ(exports->at(1).path, "/b");
  EXPECT_EQ(exports->at(1).directory, "/srv/b");
  EXPECT_TRUE(exports->at(1).admissions[0].options.read_only);
  EXPECT_EQ(exports->at(2).path, "/a");
  EXPECT_EQ(exports->at(2).directory, "relative");
}

TEST(ServeOptions, ADirectoryMayFollowAnExport) {
  const auto parsed = Parse({"--export", "/a=/srv/a", "/srv"});
  ASSERT_EQ(parsed.code, 0) << parsed.message;
  const auto exports = ExportsOf(parsed.options, findings);
  ASSERT_TRUE(exports) << exports.error().message;
  ASSERT_EQ(exports->size(), 2u);
  EXPECT_EQ(exports->at(0).directory, "/srv");
  EXPECT_EQ(exports->at(1).directory, "/srv/a");
}

TEST(ServeOptions, NormalizesThePathsOfExports) {
  const auto exports = ExportsOf(Parse({"--export=//data///sub/=/srv//x/"}).options, findings);
  ASSERT_TRUE(exports);
  EXPECT_EQ(exports->front().path, "/data/sub");
  EXPECT_EQ(exports->front().directory, "/srv//x/");
}

TEST(ServeOptions, ReportsTheExportThatIsMalformed) {
  for (const auto& [text, message] : {std::pair("/data", "export \"/data\": write PATH=DIR"),
                                      std::pair("data=/srv", "\"data\" does not begin with a slash"),
                                      std::pair("/data=/srv:wr", "unknown export option \"wr\""),
                                      std::pair("/data=/srv:anonuid=x", "anonuid=x: not a number")}) {
    const auto exports =
        ExportsOf(Parse({"/srv", "--export=/good=/srv", std::string("--export=") + text}).options, findings);
    ASSERT_FALSE(exports) << text;
    EXPECT_THAT(exports.error().message, HasSubstr(message));
  }
}

}  // namespace
}  // namespace penstock::cli
