#include "library/server/adapted_file_system.h"

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <latch>
#include <stdexcept>
#include <string>

#include "base/test_log.h"
#include "fs/file_system_suite.h"
#include "library/server/memory_test_support.h"
#include "library/server/objects.h"

namespace penstock::library {
namespace {

using fs::Error;
using fs::Handle;
using fs::RequestContext;

constexpr AdaptedFileSystem::Settings kSettings{.key = {1, 2}, .fsid = 7};

// A file system of the host behind the interface, as a server has it.
class AdaptedBackend : public fs::suite::Backend {
 public:
  explicit AdaptedBackend(unsigned flags) : files_(MakeMemoryFiles({.flags = flags})) {
    adapted_ = *AdaptedFileSystem::Make(files_->files, pool_, kSettings);
  }
  fs::FileSystem& fs() override { return *adapted_; }
  Loop* loop() override { return &loop_; }
  void RunOnce() override { loop_.context().run_one(); }

 private:
  OwnedFileSystem files_;
  Loop loop_;
  asio::executor_work_guard<asio::io_context::executor_type> work_{loop_.context().get_executor()};
  Workers pool_{1};  // one thread: a pin that was released has ended when the next call begins
  std::shared_ptr<AdaptedFileSystem> adapted_;
};

const fs::suite::Parameter kOnPool{"HostOnPool", [] { return std::make_unique<AdaptedBackend>(0); }};
const fs::suite::Parameter kOnLoop{"HostOnLoop",
                                   [] { return std::make_unique<AdaptedBackend>(PENSTOCK_FS_NONBLOCKING); }};

// A file system of the host whose functions return what a test wants. It has a root and a file "file".
struct Host {
  std::function<int(penstock_attributes&)> get_attributes{};
  std::function<int(penstock_handle&)> lookup{};
  std::function<int64_t(void*, size_t, uint64_t)> read{};
  std::function<int64_t(size_t, penstock_stability&)> write{};
  std::function<int(uint64_t, penstock_add_entry*, void*)> read_directory{};
  std::function<int(char*, size_t)> read_link{};
  std::function<int(const penstock_caller&)> see{};
  penstock_file_type type = PENSTOCK_REGULAR;
  uint64_t length = 10;

  static penstock_handle HandleOf(unsigned char number) {
    penstock_handle handle{};
    handle.size = 1;
    handle.octets[0] = number;
    return handle;
  }
  static Host& Of(void* self) { return *static_cast<Host*>(self); }

  static penstock_file_system_ops Table() {
    using C = const penstock_caller*;
    using H = const penstock_handle*;
    penstock_file_system_ops ops = PENSTOCK_FILE_SYSTEM_OPS_INIT;
    ops.root = [](void*, penstock_handle* root) {
      *root = HandleOf(1);
      return 0;
    };
    ops.get_attributes = [](void* self, C caller, H object, penstock_attributes* attributes) {
      Host& host = Of(self);
      if (host.see && host.see(*caller) != 0) return -EIO;
      attributes->type = object->octets[0] == 1 ? PENSTOCK_DIRECTORY : host.type;
      attributes->mode = 0777;
      attributes->links = 1;
      attributes->length = host.length;
      attributes->file_id = object->octets[0];
      attributes->change = 1;
      return object->octets[0] != 1 && host.get_attributes ? host.get_attributes(*attributes) : 0;
    };
    ops.lookup = [](void* self, C, H, const char*, penstock_handle* found) {
      *found = HandleOf(2);
      return Of(self).lookup ? Of(self).lookup(*found) : 0;
    };
    ops.read = [](void* self, C, H, void* buffer, size_t count, uint64_t offset) {
      return Of(self).read(buffer, count, offset);
    };
    ops.read_directory = [](void* self, C, H, uint64_t cookie, penstock_add_entry* add, void* context) {
      return Of(self).read_directory(cookie, add, context);
    };
    ops.read_link = [](void* self, C, H, char* buffer, size_t size) { return Of(self).read_link(buffer, size); };
    ops.write = [](void* self, C, H, const void*, size_t count, uint64_t, penstock_stability* stability) {
      return Of(self).write(count, *stability);
    };
    return ops;
  }
};

class HostTest : public testing::Test {
 protected:
  HostTest() {
    penstock_file_system_options options = PENSTOCK_FILE_SYSTEM_OPTIONS_INIT;
    options.flags = PENSTOCK_FS_NONBLOCKING;
    penstock_file_system* made = nullptr;
    const penstock_file_system_ops ops = Host::Table();
    EXPECT_EQ(penstock_file_system_new(&ops, &host_, &options, &made), 0) << penstock_error_text();
    files_.reset(made);
    adapted_ = *AdaptedFileSystem::Make(files_->files, pool_, kSettings);
    file_ = Await(adapted_->Lookup(context_, adapted_->Root(), "file")).result->handle;
  }

  template <class T>
  static T Await(Task<T> task) {
    std::optional<T> result;
    Spawn(Keep(std::move(task), result));
    return std::move(*result);  // no call waits
  }
  // The error of a Lookup.
  std::optional<Error> Looked() {
    return fs::suite::ErrorOf(Await(adapted_->Lookup(context_, adapted_->Root(), "file")).result);
  }
  std::optional<Error> Read(uint32_t count = 10) {
    return fs::suite::ErrorOf(Await(adapted_->Read(context_, file_, 0, count)).result);
  }
  std::optional<Error> Write() {
    const Data data(Slice::Borrowed(AsBytes("0123456789")));
    return fs::suite::ErrorOf(Await(adapted_->Write(context_, file_, 0, data, fs::Stability::kUnstable)).result);
  }
  std::optional<Error> Listed() {
    fs::suite::Collector collector(100);
    const auto reply = Await(adapted_->ReadDirectory(context_, adapted_->Root(), {fs::Cookie(2), {}}, collector));
    return fs::suite::ErrorOf(reply.result);
  }

  Host host_;
  CapturedLog log_;
  Workers pool_{1};
  OwnedFileSystem files_;
  std::shared_ptr<AdaptedFileSystem> adapted_;
  const RequestContext context_{.credentials = {.uid = 1000, .gid = 100, .groups = {}}};
  Handle file_;

 private:
  template <class T>
  static Task<void> Keep(Task<T> task, std::optional<T>& result) {
    result.emplace(co_await std::move(task));
  }
};

TEST_F(HostTest, ErrorsBecomeThoseOfTheProtocol) {
  for (const auto& [number, error] : {std::pair{ENOENT, Error::kNoEnt},
                                      {EACCES, Error::kAccess},
                                      {EIO, Error::kIo},
                                      {ESTALE, Error::kStale},
                                      {ENOSPC, Error::kNoSpace},
                                      {EDQUOT, Error::kQuota},
                                      {ENOMEM, Error::kDelay},
                                      {EROFS, Error::kReadOnly}}) {
    host_.read = [number](void*, size_t, uint64_t) { return -number; };
    EXPECT_EQ(Read(), error) << number;
  }
  EXPECT_EQ(log_.Take(), "") << "they are no mistakes";
}

TEST_F(HostTest, ValuesThatAreNoErrnoAreServerFaults) {
  for (const int64_t value : {int64_t{-5000}, INT64_MIN, int64_t{-ENOSYS}}) {
    host_.read = [value](void*, size_t, uint64_t) { return value; };
    EXPECT_EQ(Read(), Error::kServerFault) << value;
  }
  EXPECT_THAT(log_.TakeOne(), testing::HasSubstr("read has returned -5000")) << "and not more than one line a second";
}

TEST_F(HostTest, ExceptionsAreServerFaults) {
  host_.read = [](void*, size_t, uint64_t) -> int64_t { throw std::runtime_error("no luck"); };
  EXPECT_EQ(Read(), Error::kServerFault);
  EXPECT_THAT(log_.TakeOne(), testing::HasSubstr("no luck"));
  host_.read = [](void*, size_t, uint64_t) -> int64_t { throw std::bad_alloc(); };
  EXPECT_EQ(Read(), Error::kDelay);
}

TEST_F(HostTest, ReadOfMoreThanWasAskedForIsAServerFault) {
  host_.read = [](void*, size_t count, uint64_t) { return static_cast<int64_t>(count) + 1; };
  EXPECT_EQ(Read(), Error::kServerFault);
}

TEST_F(HostTest, MissingOctetsAreNotTakenForTheEndOfTheFile) {
  host_.read = [](void* buffer, size_t, uint64_t offset) {
    if (offset >= 4) return 0;
    std::memset(buffer, 'x', 4);
    return 4;
  };
  EXPECT_EQ(Read(), Error::kServerFault);
  host_.length = 4;
  EXPECT_EQ(Read(), std::nullopt);
}

TEST_F(HostTest, ReadsOnAfterAShortRead) {
  host_.read = [](void* buffer, size_t count, uint64_t offset) {
    const size_t some = std::min<size_t>(count, 3);
    std::memset(buffer, static_cast<int>('a' + offset), some);
    return static_cast<int64_t>(some);
  };
  const auto reply = Await(adapted_->Read(context_, file_, 0, 100));
  ASSERT_TRUE(reply.result);
  EXPECT_EQ(fs::suite::TextOf(reply.result->data), "aaadddgggj");
  EXPECT_TRUE(reply.result->eof);
}

TEST_F(HostTest, BadHandlesAreServerFaults) {
  for (const uint32_t size : {0u, 41u, UINT32_MAX}) {
    host_.lookup = [size](penstock_handle& found) {
      found.size = size;
      return 0;
    };
    EXPECT_EQ(Looked(), Error::kServerFault) << size;
  }
  host_.lookup = [](penstock_handle&) { return 1; };
  EXPECT_EQ(Looked(), Error::kServerFault) << "a success is zero";
}

TEST_F(HostTest, BadAttributesAreServerFaults) {
  const std::function<void(penstock_attributes&)> mistakes[] = {
      [](penstock_attributes& a) { a.type = PENSTOCK_OTHER; },
      [](penstock_attributes& a) { a.type = static_cast<penstock_file_type>(0); },
      [](penstock_attributes& a) { a.modified.nanoseconds = 1'000'000'000; },
      [](penstock_attributes& a) { a.length = UINT64_MAX; },
  };
  for (const auto& mistake : mistakes) {
    host_.get_attributes = [&](penstock_attributes& attributes) {
      mistake(attributes);
      return 0;
    };
    EXPECT_EQ(fs::suite::ErrorOf(Await(adapted_->GetAttributes(context_, file_))), Error::kServerFault);
  }
}

TEST_F(HostTest, BadCountsOfAWriteAreServerFaults) {
  for (const int64_t count : {int64_t{0}, int64_t{11}, INT64_MAX}) {
    host_.write = [count](size_t, penstock_stability&) { return count; };
    EXPECT_EQ(Write(), Error::kServerFault) << count;
  }
  host_.write = [](size_t count, penstock_stability& stability) {
    stability = static_cast<penstock_stability>(3);
    return static_cast<int64_t>(count);
  };
  EXPECT_EQ(Write(), Error::kServerFault);
}

TEST_F(HostTest, BadEntriesOfADirectoryAreServerFaults) {
  const penstock_handle big{.size = 41, .octets = {}};
  const std::function<int(penstock_add_entry*, void*)> mistakes[] = {
      [](penstock_add_entry* add, void* to) { return add(to, nullptr, 1, 3, nullptr, nullptr); },
      [](penstock_add_entry* add, void* to) { return add(to, "", 1, 3, nullptr, nullptr); },
      [](penstock_add_entry* add, void* to) { return add(to, "a/b", 1, 3, nullptr, nullptr); },
      [](penstock_add_entry* add, void* to) { return add(to, "..", 1, 3, nullptr, nullptr); },
      [](penstock_add_entry* add, void* to) { return add(to, std::string(256, 'n').c_str(), 1, 3, nullptr, nullptr); },
      [](penstock_add_entry* add, void* to) { return add(to, "name", 1, 2, nullptr, nullptr); },
      [&](penstock_add_entry* add, void* to) { return add(to, "name", 1, 3, &big, nullptr); },
      [](penstock_add_entry*, void*) { return 1; },
  };
  for (const auto& mistake : mistakes) {
    host_.read_directory = [&](uint64_t, penstock_add_entry* add, void* to) {
      EXPECT_NE(mistake(add, to), 0);
      return &mistake == std::end(mistakes) - 1 ? 1 : 0;
    };
    EXPECT_EQ(Listed(), Error::kServerFault) << &mistake - mistakes;
  }
}

TEST_F(HostTest, ADirectoryThatDoesNotGoOnIsAServerFault) {
  host_.read_directory = [](uint64_t, penstock_add_entry* add, void* to) {
    while (add(to, "again", 1, 3, nullptr, nullptr) == 0) {
    }
    return 0;
  };
  fs::suite::Collector collector(1000);
  const auto reply = Await(adapted_->ReadDirectory(context_, adapted_->Root(), {fs::Cookie(3), {}}, collector));
  EXPECT_EQ(fs::suite::ErrorOf(reply.result), Error::kServerFault);
}

TEST_F(HostTest, BadTextsOfLinksAreServerFaults) {
  host_.type = PENSTOCK_SYMLINK;
  const auto read = [&] { return fs::suite::ErrorOf(Await(adapted_->ReadLink(context_, file_)).result); };
  host_.read_link = [](char*, size_t size) { return static_cast<int>(size) + 1; };
  EXPECT_EQ(read(), Error::kServerFault);
  host_.read_link = [](char*, size_t) { return 5; };
  EXPECT_EQ(read(), Error::kServerFault) << "zeros are no path";
  host_.read_link = [](char*, size_t) { return 0; };
  EXPECT_EQ(read(), Error::kServerFault);
}

TEST_F(HostTest, FunctionsLearnTheCaller) {
  const uint32_t groups[] = {5, 6};
  RequestContext context{.credentials = {.uid = 1000, .gid = 100, .groups = groups}};
  context.address = asio::ip::make_address("192.0.2.7");
  bool seen = false;
  host_.see = [&](const penstock_caller& caller) {
    EXPECT_EQ(caller.uid, 1000u);
    EXPECT_EQ(caller.gid, 100u);
    EXPECT_THAT(std::vector(caller.groups, caller.groups + caller.group_count), testing::ElementsAre(5, 6));
    EXPECT_STREQ(caller.address, "192.0.2.7");
    seen = true;
    return 0;
  };
  EXPECT_TRUE(Await(adapted_->GetAttributes(context, file_)));
  EXPECT_TRUE(seen);
}

TEST_F(HostTest, MissingFunctionsAreNotSupported) {
  EXPECT_FALSE(adapted_->GetProperties().read_only) << "it can write";
  EXPECT_EQ(fs::suite::ErrorOf(Await(adapted_->Remove(context_, adapted_->Root(), "file")).result),
            Error::kNotSupported);
  fs::NewAttributes values;
  values.mode = 0600;
  EXPECT_EQ(fs::suite::ErrorOf(Await(adapted_->SetAttributes(context_, file_, values, {})).result), Error::kPerm);
  const RequestContext root{.credentials = {.uid = 0, .gid = 0, .groups = {}}};
  EXPECT_EQ(fs::suite::ErrorOf(Await(adapted_->SetAttributes(root, file_, values, {})).result), Error::kNotSupported);
}

TEST_F(HostTest, WithoutAnyFunctionThatChangesItIsReadOnly) {
  penstock_file_system_ops ops = Host::Table();
  ops.write = nullptr;
  penstock_file_system* made = nullptr;
  ASSERT_EQ(penstock_file_system_new(&ops, &host_, nullptr, &made), 0);
  const OwnedFileSystem files(made);
  const auto adapted = *AdaptedFileSystem::Make(files->files, pool_, kSettings);
  EXPECT_TRUE(adapted->GetProperties().read_only);
  EXPECT_EQ(fs::suite::ErrorOf(Await(adapted->Remove(context_, adapted->Root(), "file")).result), Error::kReadOnly);
  const auto access = Await(adapted->Access(context_, file_, fs::kAccessRead | fs::kAccessModify));
  EXPECT_EQ(*access.result, fs::kAccessRead);
}

TEST_F(HostTest, HandleOfAnotherKeyIsBad) {
  AdaptedFileSystem::Settings settings = kSettings;
  settings.key = {3, 4};
  const auto other = *AdaptedFileSystem::Make(files_->files, pool_, settings);
  EXPECT_EQ(fs::suite::ErrorOf(Await(other->GetAttributes(context_, file_))), Error::kBadHandle);
  const Handle same = Await(other->Lookup(context_, other->Root(), "file")).result->handle;
  EXPECT_FALSE(same == file_);
  EXPECT_EQ(*other->Identify(same), *adapted_->Identify(file_)) << "it is one file all the same";
}

// Of two changes at a time, neither tells the attributes before it: a client would take them for its own.
TEST(AdaptedTreeTest, ChangesAtTheSameTimeDoNotTellTheAttributesBefore) {
  std::latch both(2);
  std::atomic<bool> waits = false;
  const OwnedFileSystem files = MakeMemoryFiles({.hook = [&](std::string_view operation) {
    if (waits && operation == "write") both.arrive_and_wait();
    return 0;
  }});
  AdaptedTree tree(files->files, {1, 2}, 1);
  ASSERT_TRUE(tree.FindRoot());
  const RequestContext context;
  const auto made = tree.Create(context, tree.root(), "file", {});
  ASSERT_TRUE(made.result);
  const Handle file = made.result->handle;
  const Data data(Slice::Borrowed(AsBytes("text")));
  const auto write = [&] { return tree.Write(context, file, 0, data, fs::Stability::kUnstable); };
  EXPECT_TRUE(write().object.before);
  waits = true;
  fs::Changed<fs::WriteReply> other;
  std::thread thread([&] { other = write(); });
  const auto mine = write();
  thread.join();
  EXPECT_TRUE(mine.result && other.result);
  EXPECT_FALSE(mine.object.before || other.object.before);
  EXPECT_TRUE(mine.object.after && other.object.after);
}

}  // namespace
}  // namespace penstock::library

PENSTOCK_FILE_SYSTEM_SUITE(Host, testing::Values(penstock::library::kOnPool, penstock::library::kOnLoop));
