// The fixture of the file-system suite: a backend under test, and helpers that call its file system.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/test_loop.h"
#include "fs/file_system.h"

namespace penstock::fs {

inline void PrintTo(Error error, std::ostream* out) { *out << ToString(error); }

}  // namespace penstock::fs

namespace penstock::fs::suite {

// A file system under test. Its root directory is empty, and every caller may write to it.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual fs::FileSystem& fs() = 0;
  virtual Loop* loop() { return nullptr; }
  // Lets waiting calls proceed. Only backends with calls that can wait implement it.
  virtual void RunOnce() { FAIL() << "calls of this backend never wait"; }
  // Does what is ready, and does not wait for more.
  virtual void RunSome() {
    if (loop()) TurnFor(*loop(), std::chrono::milliseconds(1));
  }
  // Ends the file system and starts a new one over the same files. Returns false if the files do not survive.
  virtual bool Restart() { return false; }
  // Whether the file system checks the rights of each caller.
  virtual bool has_callers() const { return true; }
  // Whether the file system tells where the holes of a file are, and how much space a file with holes uses.
  virtual bool knows_holes() const { return true; }
  // The largest time that it can store, in seconds. Later ones are kInvalid.
  virtual int64_t latest_time() const { return INT64_MAX; }
  // Whether it can reserve space for a file. If not, Allocate() is kNotSupported.
  virtual bool reserves_space() const { return true; }

  // Runs the backend until the task is done.
  template <class T>
  T Await(Task<T> task) {
    std::optional<T> result;
    Spawn(Keep(std::move(task), result));
    while (!result) RunOnce();
    return std::move(*result);
  }
  // Does `step` again and again, and what is ready on the loop, until the task is done.
  template <class T, class Step>
  T AwaitWith(Task<T> task, Step step) {
    std::optional<T> result;
    Spawn(Keep(std::move(task), result));
    while (!result) {
      step();
      // The task may wait for a later step, so this must not wait for the task.
      if (!result) RunSome();
    }
    return std::move(*result);
  }

 private:
  template <class T>
  static Task<> Keep(Task<T> task, std::optional<T>& result) {
    result.emplace(co_await std::move(task));
  }
};

struct Parameter {
  std::string name;
  std::function<std::unique_ptr<Backend>()> make;
};

inline std::string NameOf(const testing::TestParamInfo<Parameter>& info) { return info.param.name; }

inline void PrintTo(const Parameter& parameter, std::ostream* out) { *out << parameter.name; }

// An entry as a client keeps it.
struct Listed {
  std::string name;
  uint64_t fileid = 0;
  Cookie cookie;
  std::optional<Attributes> attributes;
  std::optional<Handle> handle;
  std::optional<Error> error{};
};

class Collector : public EntrySink {
 public:
  explicit Collector(size_t room) : room_(room) {}
  bool Add(const DirectoryEntry& entry) override {
    if (entries.size() == room_) return false;
    entries.push_back(
        {std::string(entry.name), entry.fileid, entry.cookie, entry.attributes, entry.handle, entry.error});
    return true;
  }
  std::vector<Listed> entries;

 private:
  const size_t room_;
};

// Octets that depend on their offset, so that misplaced data is noticed.
inline std::string Pattern(size_t size, unsigned seed = 0) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>((i * 7 + i / 251 + seed) & 0xff);
  return text;
}

inline std::string TextOf(const Data& data) {
  std::string text(data.size(), '\0');
  EXPECT_TRUE(data.CopyTo(std::as_writable_bytes(std::span(text))));
  return text;
}

template <class T>
std::optional<Error> ErrorOf(const Result<T>& result) {
  return result ? std::nullopt : std::optional(result.error());
}

class FileSystemSuite : public testing::TestWithParam<Parameter> {
 protected:
  void SetUp() override {
    backend_ = GetParam().make();
    ASSERT_TRUE(backend_);
    root_ = fs().Root();
    caller_ = As(0, 0);
  }

  fs::FileSystem& fs() { return backend_->fs(); }

  template <class T>
  T Await(Task<T> task) {
    return backend_->Await(std::move(task));
  }
  template <class T, class Step>
  T AwaitWith(Task<T> task, Step step) {
    return backend_->AwaitWith(std::move(task), step);
  }

  RequestContext As(uint32_t uid, uint32_t gid, std::span<const uint32_t> groups = {}) {
    return {{uid, gid, groups}, backend_->loop()};
  }

  Handle Make(const Handle& directory, std::string_view name, uint32_t mode = 0644) {
    CreateHow how;
    how.mode = CreateMode::kGuarded;
    how.attributes.mode = mode;
    return MustNode(Await(fs().Create(caller_, directory, name, how)));
  }
  Handle MakeDirectory(const Handle& directory, std::string_view name, uint32_t mode = 0755) {
    NewAttributes attributes;
    attributes.mode = mode;
    return MustNode(Await(fs().MakeDirectory(caller_, directory, name, attributes)));
  }
  Handle MakeSymlink(const Handle& directory, std::string_view name, std::string_view target) {
    return MustNode(Await(fs().MakeSymlink(caller_, directory, name, target, {})));
  }
  Observed<Node> Lookup(const Handle& directory, std::string_view name) {
    return Await(fs().Lookup(caller_, directory, name));
  }
  std::optional<Error> LookupError(const Handle& directory, std::string_view name) {
    return ErrorOf(Lookup(directory, name).result);
  }
  Attributes Stat(const Handle& object) {
    const Result<Attributes> attributes = Await(fs().GetAttributes(caller_, object));
    EXPECT_TRUE(attributes) << ToString(attributes.error());
    return attributes.value_or(Attributes{});
  }
  std::optional<Error> StatError(const Handle& object) { return ErrorOf(Await(fs().GetAttributes(caller_, object))); }
  Changed<void> Set(const Handle& object, const NewAttributes& values, std::optional<Timestamp> guard = {}) {
    return Await(fs().SetAttributes(caller_, object, values, guard));
  }
  Changed<WriteReply> Write(const Handle& file, uint64_t offset, std::string_view text,
                            Stability stability = Stability::kUnstable) {
    const Data data(Slice::Borrowed(AsBytes(text)));
    return Await(fs().Write(caller_, file, offset, data, stability));
  }
  Observed<ReadReply> Read(const Handle& file, uint64_t offset, uint32_t count) {
    return Await(fs().Read(caller_, file, offset, count));
  }
  std::string ReadText(const Handle& file, uint64_t offset = 0, uint32_t count = 1 << 20) {
    const Observed<ReadReply> reply = Read(file, offset, count);
    EXPECT_TRUE(reply.result) << ToString(reply.result.error());
    return reply.result ? TextOf(reply.result->data) : std::string();
  }
  Changed<void> Remove(const Handle& directory, std::string_view name) {
    return Await(fs().Remove(caller_, directory, name));
  }
  Changed<void> RemoveDirectory(const Handle& directory, std::string_view name) {
    return Await(fs().RemoveDirectory(caller_, directory, name));
  }
  Renamed Rename(const Handle& from, std::string_view from_name, const Handle& to, std::string_view to_name) {
    return Await(fs().Rename(caller_, from, from_name, to, to_name));
  }
  Linked Link(const Handle& file, const Handle& directory, std::string_view name) {
    return Await(fs().Link(caller_, file, directory, name));
  }
  // Makes one call and adds its entries to `entries`. Returns true at the end of the directory.
  bool ListSome(const Handle& directory, std::vector<Listed>& entries, size_t room, bool with_nodes = false) {
    Collector collector(room);
    ReadDirectoryArguments arguments;
    if (!entries.empty()) arguments.cookie = entries.back().cookie;
    arguments.with_nodes = with_nodes;
    const auto reply = Await(fs().ReadDirectory(caller_, directory, arguments, collector));
    EXPECT_TRUE(reply.result) << ToString(reply.result.error());
    EXPECT_TRUE(reply.attributes);
    entries.insert(entries.end(), collector.entries.begin(), collector.entries.end());
    return !reply.result || reply.result->eof;
  }
  std::vector<Listed> List(const Handle& directory, size_t room = 1000, bool with_nodes = false) {
    std::vector<Listed> entries;
    while (!ListSome(directory, entries, room, with_nodes)) {
    }
    return entries;
  }
  static std::map<std::string, int> CountNames(const std::vector<Listed>& entries) {
    std::map<std::string, int> counts;
    for (const Listed& entry : entries) ++counts[entry.name];
    return counts;
  }

  // Checks the attributes before and after a change to `object` that the change reported.
  void ExpectNoted(const WeakCacheData& noted, const Attributes& before, const Handle& object) {
    ASSERT_TRUE(noted.before && noted.after);
    EXPECT_EQ(noted.before->size, before.size);
    EXPECT_EQ(noted.before->mtime, before.mtime);
    EXPECT_EQ(noted.before->ctime, before.ctime);
    EXPECT_EQ(noted.before->change, before.change);
    const Attributes now = Stat(object);
    EXPECT_EQ(noted.after->size, now.size);
    EXPECT_EQ(noted.after->mtime, now.mtime);
    EXPECT_EQ(noted.after->ctime, now.ctime);
    EXPECT_EQ(noted.after->fileid, now.fileid);
    EXPECT_EQ(noted.after->nlink, now.nlink);
  }

  std::unique_ptr<Backend> backend_;
  Handle root_;
  RequestContext caller_;  // the caller of all operations above: root, unless a test changes it

 private:
  static Handle MustNode(const Changed<Node>& made) {
    EXPECT_TRUE(made.result) << ToString(made.result.error());
    return made.result ? made.result->handle : Handle();
  }
};

}  // namespace penstock::fs::suite
