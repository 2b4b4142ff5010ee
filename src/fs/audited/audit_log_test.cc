#include "fs/audited/audit_log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/test_log.h"

namespace penstock::fs::audited {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::HasSubstr;

class AuditLogTest : public testing::Test {
 protected:
  AuditLogTest() { std::filesystem::create_directory(folder_); }
  ~AuditLogTest() override { std::filesystem::remove_all(folder_); }

  void Open(const AuditLog::Limits& limits = {}) {
    auto opened = AuditLog::Open(file_, limits);
    ASSERT_TRUE(opened) << opened.error().message;
    log_ = *std::move(opened);
  }
  static Record Removal(std::string name) {
    Record record;
    record.operation = "remove";
    record.address = "192.0.2.1";
    record.export_path = "/data";
    record.object = Place{.at = {}, .name = std::move(name)};
    return record;
  }
  void Finish() { ASSERT_TRUE(log_->Finish(60s)); }
  static std::vector<json> LinesOf(const std::string& name) {
    std::vector<json> lines;
    std::ifstream in(name);
    for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
    return lines;
  }

  const std::string folder_ = std::filesystem::temp_directory_path() / ("audit-log-test-" + std::to_string(::getpid()));
  const std::string file_ = folder_ + "/audit";
  std::unique_ptr<AuditLog> log_;
};

TEST_F(AuditLogTest, WritesAnObjectInEachLine) {
  Open();
  log_->Know(7, asio::ip::make_address("::ffff:192.0.2.9"));
  Record record;
  record.operation = "rename";
  record.client = {.host = 1, .connection = 7};
  record.uid = 1000;
  record.gid = 100;
  record.export_path = "/data";
  record.object = Place{.at = {}, .name = "a \"quoted\" name\n"};
  record.to = Place{.at = {}, .name = "b"};
  record.result = "file exists";
  log_->Add(std::move(record));
  log_->Add(Removal("\xff"));
  Finish();
  const auto lines = LinesOf(file_);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[0].at("time").get<std::string>(),
              testing::MatchesRegex("[0-9]+-[0-9]+-[0-9]+T[0-9]+:[0-9]+:[0-9]+[.][0-9][0-9][0-9][0-9][0-9][0-9]Z"));
  json rest = lines[0];
  rest.erase("time");
  EXPECT_EQ(rest, json::parse(R"({"client": "192.0.2.9", "uid": 1000, "gid": 100, "export": "/data",
                                  "operation": "rename", "path": "a \"quoted\" name\n", "to": "b",
                                  "result": "file exists"})"));
  EXPECT_EQ(lines[1].at("path"), "\xEF\xBF\xBD") << "no UTF-8";
  EXPECT_EQ(lines[1].at("result"), "ok");
}

TEST_F(AuditLogTest, MakesAPrivateFileAndAppendsToIt) {
  Open();
  log_->Add(Removal("one"));
  log_.reset();  // writes what is left
  struct stat status{};
  ASSERT_EQ(::stat(file_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
  Open();
  log_->Add(Removal("two"));
  Finish();
  EXPECT_EQ(LinesOf(file_).size(), 2u);
}

TEST_F(AuditLogTest, ReportsAFileThatCannotBeOpened) {
  const auto opened = AuditLog::Open(folder_ + "/missing/audit");
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("/missing/audit: No such file or directory"));
}

TEST_F(AuditLogTest, OpensItsFileAgainAfterARotation) {
  Open();
  log_->Add(Removal("before"));
  Finish();
  std::filesystem::rename(file_, file_ + ".1");
  log_->Reopen();
  while (!std::filesystem::exists(file_)) std::this_thread::yield();
  log_->Add(Removal("after"));
  Finish();
  EXPECT_EQ(LinesOf(file_ + ".1").size(), 1u);
  ASSERT_EQ(LinesOf(file_).size(), 1u);
  EXPECT_EQ(LinesOf(file_)[0].at("path"), "after");
}

TEST_F(AuditLogTest, KeepsItsFileIfItCannotBeOpenedAgain) {
  const CapturedLog captured;
  Open();
  std::filesystem::rename(folder_, folder_ + ".moved");
  log_->Reopen();
  while (captured.text().empty()) std::this_thread::yield();
  EXPECT_THAT(captured.text(),
              HasSubstr("cannot be opened again (No such file or directory): the file before is used"));
  std::filesystem::rename(folder_ + ".moved", folder_);
  log_->Add(Removal("name"));
  Finish();
  EXPECT_EQ(LinesOf(file_).size(), 1u);
}

// Lets the process write files of at most so many octets. Signals are ignored.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t octets) {
    std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{.rlim_cur = octets, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(AuditLogTest, ADiskThatIsFullLosesRecordsWithTheirNumberAndLeavesNoPartsOfLines) {
  const CapturedLog captured;
  Open();
  {
    const FileSizeLimit limit(300);  // two lines, and a part of the third
    for (int i = 0; i < 10; ++i) log_->Add(Removal("name"));
    Finish();
  }
  const auto before = LinesOf(file_);  // requires whole lines
  ASSERT_FALSE(before.empty());
  EXPECT_EQ(before.size() + log_->lost(), 10u);
  EXPECT_THAT(captured.text(),
              HasSubstr("error: the audit log " + file_ + " loses records (1 so far): File too large"));
  EXPECT_EQ(std::ranges::count(captured.text(), '\n'), 1) << "once a minute";
  log_->Add(Removal("later"));
  Finish();
  const auto after = LinesOf(file_);
  ASSERT_EQ(after.size(), before.size() + 2);
  EXPECT_EQ(after[before.size()].at("lost"), 10 - before.size());
  EXPECT_EQ(after.back().at("path"), "later");
}

TEST_F(AuditLogTest, AFullQueueLosesRecordsAndNoCallerWaits) {
  const CapturedLog captured;
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  const int reader = ::open(file_.c_str(), O_RDONLY | O_NONBLOCK);  // takes nothing at first
  ASSERT_GE(reader, 0);
  Open({.queue = 4});
  Record large = Removal(std::string(60'000, 'x'));
  for (int i = 0; i < 20; ++i) log_->Add(large);
  EXPECT_GE(log_->lost(), 10u) << "a pipe holds one such record, the thread one, and the queue four";
  EXPECT_FALSE(log_->Finish(1ms));
  // The reader takes all: the last line, or the one before, has the number.
  std::string text;
  std::thread reading([&] {
    std::vector<char> buffer(1 << 16);
    for (;;) {
      const ssize_t count = ::read(reader, buffer.data(), buffer.size());
      if (count > 0) text.append(buffer.data(), static_cast<size_t>(count));
      if (count == 0) return;
      if (count < 0) std::this_thread::yield();
    }
  });
  const uint64_t lost = log_->lost();
  log_.reset();
  reading.join();
  ::close(reader);
  uint64_t told = 0, written = 0;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    const json object = json::parse(line);
    object.contains("lost") ? told += object.at("lost").get<uint64_t>() : ++written;
  }
  EXPECT_EQ(told, lost);
  EXPECT_EQ(written + lost, 20u);
  EXPECT_THAT(captured.text(), HasSubstr("the disk was too slow, or full"));
}

TEST_F(AuditLogTest, RemembersTheFirstWriteOfAClientToAFileForAMinute) {
  Open({.files = 4});
  const ClientKey one{.host = 1, .connection = 1}, other{.host = 2, .connection = 2};
  const Handle file = *Handle::FromBytes(AsBytes("file"));
  TimePoint now{1h};
  EXPECT_TRUE(log_->IsFirstWrite(one, "7 write", file, true, now));
  EXPECT_FALSE(log_->IsFirstWrite(one, "7 write", file, true, now + 59s));
  EXPECT_FALSE(log_->IsFirstWrite({.host = 1, .connection = 5}, "7 write", file, true, now))
      << "another connection of the host";
  EXPECT_TRUE(log_->IsFirstWrite(one, "7 write", file, false, now)) << "it failed";
  EXPECT_TRUE(log_->IsFirstWrite(one, "8 write", file, true, now)) << "another user";
  EXPECT_TRUE(log_->IsFirstWrite(other, "7 write", file, true, now));
  EXPECT_TRUE(log_->IsFirstWrite(one, "7 write", file, true, now + 60s));
  EXPECT_TRUE(log_->IsFirstWrite(one, "7 write", *Handle::FromBytes(AsBytes("more")), true, now + 60s))
      << "memory is bounded";
}

TEST_F(AuditLogTest, KnowsTheAddressesOfTheNewestConnections) {
  Open({.connections = 2});
  for (uint64_t connection = 1; connection <= 3; ++connection) {
    log_->Know(connection, asio::ip::make_address("192.0.2." + std::to_string(connection)));
  }
  for (uint64_t connection = 1; connection <= 3; ++connection) {
    Record record = Removal("name");
    record.address.clear();
    record.client.connection = connection;
    log_->Add(std::move(record));
  }
  Finish();
  const auto lines = LinesOf(file_);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].at("client"), "");
  EXPECT_EQ(lines[1].at("client"), "192.0.2.2");
  EXPECT_EQ(lines[2].at("client"), "192.0.2.3");
}

}  // namespace
}  // namespace penstock::fs::audited
