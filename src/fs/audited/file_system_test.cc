#include "fs/audited/file_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fs/file_system_suite.h"
#include "fs/memory/file_system.h"

namespace penstock::fs::audited {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

NewAttributes WithMode(uint32_t mode) {
  NewAttributes attributes;
  attributes.mode = mode;
  return attributes;
}

class AuditedFilesTest : public testing::Test {
 protected:
  AuditedFilesTest() {
    context_.credentials = {.uid = 0, .gid = 0, .groups = {}};
    context_.client = {.host = 1, .connection = 7};
    log_->Know(7, asio::ip::make_address("192.0.2.7"));
  }
  ~AuditedFilesTest() override { std::filesystem::remove(name_); }

  template <class T>
  static T Now(Task<T> task) {
    std::optional<T> result;
    Spawn([](Task<T> inner, std::optional<T>& to) -> Task<> { to.emplace(co_await std::move(inner)); }(std::move(task),
                                                                                                       result));
    return std::move(*result);
  }
  // "operation path [to] result" of each record.
  std::vector<std::string> Records() {
    std::vector<std::string> said;
    for (const nlohmann::json& line : Lines()) {
      EXPECT_EQ(line.at("client"), "192.0.2.7");
      EXPECT_EQ(line.at("export"), "/data");
      EXPECT_EQ(line.at("uid"), context_.credentials.uid);
      std::string& record = said.emplace_back(line.at("operation").get<std::string>());
      for (const char* const key : {"path", "to", "access", "result"}) {
        if (line.contains(key)) record += " " + line.at(key).get<std::string>();
      }
    }
    return said;
  }
  std::vector<nlohmann::json> Lines() {
    EXPECT_TRUE(log_->Finish(60s));
    std::vector<nlohmann::json> lines;
    std::ifstream in(name_);
    for (std::string text; std::getline(in, text);) lines.push_back(nlohmann::json::parse(text));
    return lines;
  }

  const std::string name_ = std::filesystem::temp_directory_path() / ("audited-test-" + std::to_string(::getpid()));
  const std::shared_ptr<AuditLog> log_ = *AuditLog::Open(name_);
  const std::shared_ptr<memory::FileSystem> memory_ = std::make_shared<memory::FileSystem>();
  FileSystem files_{memory_, "/data", log_};
  const Handle root_ = memory_->Root();
  RequestContext context_;
};

TEST_F(AuditedFilesTest, RecordsEachOperationThatChangesNames) {
  Now(files_.Create(context_, root_, "file", {}));
  Now(files_.MakeDirectory(context_, root_, "directory", {}));
  Now(files_.MakeSymlink(context_, root_, "symlink", "target", {}));
  Now(files_.MakeNode(context_, root_, "fifo", {.type = FileType::kFifo, .device = {}}, {}));
  Now(files_.Rename(context_, root_, "file", root_, "renamed"));
  Now(files_.Remove(context_, root_, "renamed"));
  Now(files_.RemoveDirectory(context_, root_, "directory"));
  EXPECT_THAT(Records(), ElementsAre("create file ok", "mkdir directory ok", "symlink symlink ok", "mknod fifo ok",
                                     "rename file renamed ok", "remove renamed ok", "rmdir directory ok"));
}

TEST_F(AuditedFilesTest, RecordsChangesOfAnObjectAndTheirErrors) {
  const Handle file = Now(files_.Create(context_, root_, "file", {})).result->handle;
  Now(files_.SetAttributes(context_, file, WithMode(0600), std::nullopt));
  Now(files_.SetAttributes(context_, file, WithMode(0600), Timestamp{1, 1}));
  Now(files_.Link(context_, file, root_, "link"));
  Now(files_.Remove(context_, root_, "missing"));
  std::vector<std::string> results;
  for (const nlohmann::json& line : Lines()) {
    results.push_back(line.at("operation").get<std::string>() + " " + line.at("result").get<std::string>());
  }
  EXPECT_THAT(results, ElementsAre("create ok", "setattr ok", "setattr guard does not hold", "link ok",
                                   "remove no such file or directory"));
}

TEST_F(AuditedFilesTest, RecordsNoCreationOfAFileThatExistsAndStaysAsItIs) {
  CreateHow how;
  Now(files_.Create(context_, root_, "file", how));
  Now(files_.Create(context_, root_, "file", how));
  EXPECT_THAT(Records(), ElementsAre("create file ok"));
  how.attributes.size = 0;
  Now(files_.Create(context_, root_, "file", how));
  EXPECT_THAT(Records(), ElementsAre("create file ok", "create file ok"));
}

TEST_F(AuditedFilesTest, RecordsTheFirstWriteOnly) {
  const Handle file = Now(files_.Create(context_, root_, "file", {})).result->handle;
  const Data data(Slice::Borrowed(AsBytes("text")));
  for (uint64_t offset = 0; offset < 40; offset += 4) {
    EXPECT_TRUE(Now(files_.Write(context_, file, offset, data, Stability::kUnstable)).result);
  }
  EXPECT_THAT(Records(), ElementsAre("create file ok", "write ok"));
}

TEST_F(AuditedFilesTest, RecordsOpens) {
  EXPECT_TRUE(files_.RecordsOpens());
  EXPECT_FALSE(memory_->RecordsOpens());
  files_.RecordOpen(context_, {.at = root_, .name = "file", .reads = true, .writes = true, .result = "ok"});
  files_.RecordOpen(context_, {.at = root_, .name = "file", .writes = true, .result = "NFS4ERR_ACCESS"});
  EXPECT_THAT(Records(), ElementsAre("open file read,write ok", "open file write NFS4ERR_ACCESS"));
}

TEST_F(AuditedFilesTest, RecordsNothingThatChangesNothing) {
  Now(files_.Lookup(context_, root_, "missing"));
  Now(files_.GetAttributes(context_, root_));
  Now(files_.Access(context_, root_, kAccessRead));
  EXPECT_THAT(Records(), ElementsAre());
}

class AuditedBackend : public suite::Backend {
 public:
  ~AuditedBackend() override { std::filesystem::remove(name_); }
  fs::FileSystem& fs() override { return files_; }

 private:
  const std::string name_ = std::filesystem::temp_directory_path() / ("audited-suite-" + std::to_string(::getpid()));
  FileSystem files_{std::make_shared<memory::FileSystem>(memory::Options{.root_mode = 0777}), "/data",
                    *AuditLog::Open(name_)};
};

const suite::Parameter kAudited{"Audited", [] { return std::make_unique<AuditedBackend>(); }};

}  // namespace
}  // namespace penstock::fs::audited

PENSTOCK_FILE_SYSTEM_SUITE(Audited, testing::Values(penstock::fs::audited::kAudited));
