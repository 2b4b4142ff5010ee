// For tests: a posix::FileSystem over a new directory.
#pragma once

#include <gtest/gtest.h>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "base/descriptor_limit.h"
#include "base/loop.h"
#include "base/workers.h"
#include "fs/posix/file_system.h"
#include "fs/suite/fixture.h"

namespace penstock::fs::posix {

// A new directory, which is removed with this object.
class Scratch {
 public:
  explicit Scratch(const std::filesystem::path& where) {
    std::string name = where / "penstock-test-XXXXXX";
    path_ = ::mkdtemp(name.data());
    std::filesystem::create_directory(exported());
    std::filesystem::create_directory(state());
    std::filesystem::permissions(exported(), std::filesystem::perms::all);
  }
  ~Scratch() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  std::filesystem::path exported() const { return path_ / "export"; }
  std::filesystem::path outside() const { return path_; }
  std::filesystem::path state() const { return path_ / "state"; }

 private:
  std::filesystem::path path_;
};

class PosixBackend : public suite::Backend {
 public:
  PosixBackend(const std::filesystem::path& where, Options options, size_t threads = 2)
      : scratch_(where), options_(std::move(options)), pool_(threads) {
    RaiseDescriptorLimit();
    options_.state_directory = scratch_.state();
    Start();
  }
  fs::FileSystem& fs() override { return *file_system_; }
  Loop* loop() override { return &loop_; }
  void RunOnce() override { loop_.context().run_one(); }
  // Runs all handlers that are ready.
  void RunSome() override { loop_.context().poll(); }
  bool Restart() override {
    file_system_.reset();
    Start();
    return true;
  }
  bool has_callers() const override { return ::geteuid() == 0; }

  FileSystem& posix_fs() { return *file_system_; }
  const Scratch& scratch() const { return scratch_; }
  const Options& options() const { return options_; }

 private:
  void Start() {
    auto opened = FileSystem::Open(scratch_.exported(), pool_, options_);
    ASSERT_TRUE(opened) << opened.error().message;
    file_system_ = std::move(*opened);
  }

  Scratch scratch_;
  Options options_;
  Loop loop_;
  asio::executor_work_guard<asio::io_context::executor_type> work_{loop_.context().get_executor()};
  Workers pool_;
  std::unique_ptr<FileSystem> file_system_;
};

inline const char* const kDisk = "/var/tmp";
inline const char* const kMemory = "/dev/shm";

inline Options With(HandleMethod handles) {
  Options options;
  options.handles = handles;
  options.sync_metadata = false;  // the tests do not measure the disk
  return options;
}

}  // namespace penstock::fs::posix
