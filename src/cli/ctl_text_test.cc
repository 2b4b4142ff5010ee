#include "cli/ctl_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace penstock::cli {
namespace {

// The arguments of the only request of a command line, or the error.
std::string ArgumentsOf(ControlWords words) {
  const auto request = RequestFor(words);
  if (!request) return request.error().message;
  EXPECT_EQ(request->command, words.command);
  EXPECT_EQ(request->arguments.size(), 1u);
  return request->arguments.front().dump();
}

TEST(ControlWords, BecomeTheArgumentsOfTheRequest) {
  EXPECT_EQ(ArgumentsOf({.command = "status"}), "{}");
  EXPECT_EQ(ArgumentsOf({.command = "locks", .client = "192.0.2.1", .path = "/a", .limit = 5}),
            R"({"client":"192.0.2.1","limit":5,"path":"/a"})");
  EXPECT_EQ(ArgumentsOf({.command = "drain", .arguments = {"off"}}), R"({"on":false})");
  EXPECT_EQ(ArgumentsOf({.command = "grace", .arguments = {"start", "90"}}), R"({"action":"start","seconds":90})");
  EXPECT_EQ(ArgumentsOf({.command = "grace", .arguments = {"end"}}), R"({"action":"end"})");
  EXPECT_EQ(ArgumentsOf({.command = "trace", .arguments = {"start", "/t", "192.0.2.1"}}),
            R"({"action":"start","client":"192.0.2.1","file":"/t"})");
  EXPECT_EQ(ArgumentsOf({.command = "log"}), "{}");
  EXPECT_EQ(ArgumentsOf({.command = "log", .arguments = {"debug", "nfs.v4"}}),
            R"({"level":"debug","module":"nfs.v4"})");
  EXPECT_EQ(ArgumentsOf({.command = "trace", .arguments = {"stop"}}), R"({"action":"stop"})");
}

TEST(ControlWords, EvictAndRevokeBecomeARequestForEachWord) {
  const auto request = RequestFor({.command = "revoke", .arguments = {"a", "b"}});
  ASSERT_TRUE(request);
  EXPECT_EQ(Json(request->arguments).dump(), R"([{"stateid":"a"},{"stateid":"b"}])");
}

TEST(ControlWords, AreRefusedWithTheUsageOfTheCommand) {
  EXPECT_EQ(ArgumentsOf({.command = "status", .arguments = {"x"}}), "status takes no further words");
  EXPECT_EQ(ArgumentsOf({.command = "status", .client = "x"}), "status takes no --client");
  EXPECT_EQ(ArgumentsOf({.command = "sessions", .path = "/a"}), "sessions takes no --file and no --limit");
  EXPECT_EQ(ArgumentsOf({.command = "evict"}), "the command is: evict CLIENT...");
  EXPECT_EQ(ArgumentsOf({.command = "drain"}), "the command is: drain on | off");
  EXPECT_EQ(ArgumentsOf({.command = "grace", .arguments = {"start", "-1"}}),
            "the command is: grace start SECONDS | end");
  EXPECT_EQ(ArgumentsOf({.command = "trace", .arguments = {"start"}}),
            "the command is: trace start FILE [CLIENT] | stop");
  EXPECT_EQ(ArgumentsOf({.command = "nonsense"}), "there is no command \"nonsense\"");
}

TEST(ControlResult, LocksAreATableWithARowForEachRange) {
  const Json result = {
      {"states",
       {{{"client", "0a"},
         {"stateid", "ff"},
         {"path", "/file"},
         {"owner", "x"},
         {"ranges", {{{"offset", 0}, {"length", 10}, {"type", "write"}}, {{"offset", 4096}, {"type", "read"}}}}}}},
      {"complete", true}};
  EXPECT_EQ(ResultText("locks", result),
            "CLIENT  TYPE   OFFSET  LENGTH      STATEID  FILE\n"
            "0a      write       0  10          ff       /file\n"
            "0a      read     4096  to the end  ff       /file\n");
}

TEST(ControlResult, SaysThatAListIsNotComplete) {
  const Json result = {
      {"states", {{{"client", "0a"}, {"stateid", "ff"}, {"path", "/file"}, {"access", "r"}, {"deny", ""}}}},
      {"complete", false}};
  EXPECT_EQ(ResultText("opens", result),
            "CLIENT  ACCESS  DENIES  STATEID  FILE\n"
            "0a      r       -       ff       /file\n"
            "there are more: --limit shows more of them\n");
}

TEST(ControlResult, AnEmptyListIsASentence) {
  EXPECT_EQ(ResultText("locks", {{"states", Json::array()}, {"complete", true}}), "no locks\n");
  EXPECT_EQ(ResultText("clients", Json::array()), "no clients\n");
  EXPECT_EQ(ResultText("drain", Json::object()), "");
}

TEST(ControlResult, SaysThatStatesOfFilesWithoutAKnownNameAreLeftOut) {
  Json result = {{"states", Json::array()}, {"complete", true}, {"unnamed", 0}};
  EXPECT_EQ(ResultText("delegations", result), "no delegations\n");
  result["unnamed"] = 1;
  EXPECT_EQ(ResultText("locks", result),
            "no locks\n"
            "1 more is of a file whose name the server does not know: the list without --file shows it\n");
  result["unnamed"] = 3;
  result["states"] = {{{"client", "0a"}, {"stateid", "ff"}, {"path", "/file"}, {"access", "r"}, {"deny", ""}}};
  EXPECT_EQ(ResultText("opens", result),
            "CLIENT  ACCESS  DENIES  STATEID  FILE\n"
            "0a      r       -       ff       /file\n"
            "3 more are of files whose names the server does not know: the list without --file shows them\n");
}

TEST(ControlResult, StatusNamesTransportsThatAreOff) {
  const std::string text = ResultText("status", {{"version", "penstock 1"},
                                                 {"ready", true},
                                                 {"listening", {{"rdma", Json::array()}, {"tcp", {"127.0.0.1:2049"}}}},
                                                 {"rdma", Json::array()}});
  EXPECT_TRUE(text.contains("\nrdma: off\ntcp: 127.0.0.1:2049\nEXPORTS")) << text;
}

TEST(ControlResult, StatusSaysWhyTheServerIsNotReady) {
  const std::string text = ResultText("status", {{"version", "penstock 1"},
                                                 {"pid", 7},
                                                 {"uptime_seconds", 3700.5},
                                                 {"ready", false},
                                                 {"not_ready_because", "draining"},
                                                 {"listening", {{"tcp", "127.0.0.1:2049"}}},
                                                 {"loop_delay_seconds", {0.001, nullptr}}});
  EXPECT_TRUE(
      text.starts_with("penstock 1, process 7, has run for 1 h 1 min\nnot ready: draining\ntcp: "
                       "127.0.0.1:2049\n"))
      << text;
  EXPECT_TRUE(text.contains("event loop 1 does not answer\n")) << text;
  EXPECT_FALSE(text.contains("event loop 0")) << text;
}

Json Counters(double operations, double read, double count, double sum) {
  const auto sample = [](const char* label, const char* name, double value) {
    return Json{{"labels", {{label, name}}}, {"value", value}};
  };
  return {
      {"penstock_client_operations_total", {sample("client", "192.0.2.1", operations), sample("client", "rest", 5)}},
      {"penstock_client_operation_seconds_total", {sample("client", "192.0.2.1", sum), sample("client", "rest", 7)}},
      {"penstock_client_read_bytes_total", {sample("client", "192.0.2.1", read)}},
      {"penstock_export_operations_total", {sample("export", "/data", operations)}},
      {"penstock_export_operation_seconds_total", {sample("export", "/data", sum / 2)}},
      {"penstock_operation_seconds",
       {{{"labels", {{"program", "NFS"}, {"version", "3"}, {"operation", "READ"}}}, {"count", count}, {"sum", sum}}}}};
}

TEST(ControlTop, ShowsWhatHasChangedPerSecond) {
  EXPECT_EQ(TopText(Counters(100, 0, 10, 1), Counters(300, 8 << 20, 30, 1.002), 2, 10),
            "100 operations, 4.0 MiB read, 0.0 MiB written per second\n"
            "\n"
            "CLIENT     OPERATIONS/s  MEAN us  READ MiB/s  WRITTEN MiB/s\n"
            "192.0.2.1           100     10.0         4.0            0.0\n"
            "\n"
            "EXPORT  OPERATIONS/s  MEAN us  READ MiB/s  WRITTEN MiB/s\n"
            "/data            100      5.0         0.0            0.0\n"
            "\n"
            "OPERATION   PER SECOND  MEAN us\n"
            "NFS 3 READ          10    100.0\n");
}

TEST(ControlTop, AServerThatStartedAgainHasNoNegativeRates) {
  EXPECT_EQ(TopText(Counters(300, 5, 30, 1), Counters(0, 0, 0, 0), 1, 10),
            "0.0 operations, 0.0 MiB read, 0.0 MiB written per second\n");
}

}  // namespace
}  // namespace penstock::cli
