// The server's files, which take their time: before each operation and after it others have their turn, so that a call is
// met in the midst of its execution by whatever may happen then.
#pragma once

#include <list>
#include <memory>
#include <utility>

#include "base/task.h"
#include "fs/file_system.h"
#include "rdma/sim/world.h"

namespace penstock::simulation {

class SlowFiles final : public fs::FileSystem {
 public:
  SlowFiles(std::shared_ptr<fs::FileSystem> files, rdma::sim::World& world, Duration max_delay)
      : files_(std::move(files)), world_(world), max_delay_(max_delay) {}

  // Brings what is under way to its end at once, and takes no time from now on, or as before again.
  void Hurry() {
    hurried_ = true;
    while (!waiting_.empty()) waiting_.front()->Set();
  }
  void TakeTime() { hurried_ = false; }

  fs::Handle Root() const override { return files_->Root(); }
  const fs::Properties& GetProperties() const override { return files_->GetProperties(); }
  Task<fs::Result<fs::Attributes>> GetAttributes(const fs::Context& context, const fs::Handle& object) override {
    return Slowly(files_->GetAttributes(context, object));
  }
  Task<fs::Changed<void>> SetAttributes(const fs::Context& context, const fs::Handle& object,
                                        const fs::NewAttributes& values, std::optional<fs::Timestamp> guard) override {
    return Slowly(files_->SetAttributes(context, object, values, guard));
  }
  Task<fs::Observed<fs::Node>> Lookup(const fs::Context& context, const fs::Handle& directory,
                                      std::string_view name) override {
    return Slowly(files_->Lookup(context, directory, name));
  }
  Task<fs::Observed<fs::AccessMask>> Access(const fs::Context& context, const fs::Handle& object,
                                            fs::AccessMask wanted) override {
    return Slowly(files_->Access(context, object, wanted));
  }
  Task<fs::Observed<std::string>> ReadLink(const fs::Context& context, const fs::Handle& symlink) override {
    return Slowly(files_->ReadLink(context, symlink));
  }
  Task<fs::Observed<fs::ReadReply>> Read(const fs::Context& context, const fs::Handle& file, uint64_t offset,
                                         uint32_t count) override {
    return Slowly(files_->Read(context, file, offset, count));
  }
  Task<fs::Changed<fs::WriteReply>> Write(const fs::Context& context, const fs::Handle& file, uint64_t offset,
                                          const Data& data, fs::Stability stability) override {
    return Slowly(files_->Write(context, file, offset, data, stability));
  }
  Task<fs::Changed<fs::WriteVerifier>> Commit(const fs::Context& context, const fs::Handle& file) override {
    return Slowly(files_->Commit(context, file));
  }
  Task<fs::Changed<fs::Node>> Create(const fs::Context& context, const fs::Handle& directory, std::string_view name,
                                     const fs::CreateHow& how) override {
    return Slowly(files_->Create(context, directory, name, how));
  }
  Task<fs::Changed<fs::Node>> MakeDirectory(const fs::Context& context, const fs::Handle& directory,
                                            std::string_view name, const fs::NewAttributes& attributes) override {
    return Slowly(files_->MakeDirectory(context, directory, name, attributes));
  }
  Task<fs::Changed<fs::Node>> MakeSymlink(const fs::Context& context, const fs::Handle& directory,
                                          std::string_view name, std::string_view target,
                                          const fs::NewAttributes& attributes) override {
    return Slowly(files_->MakeSymlink(context, directory, name, target, attributes));
  }
  Task<fs::Changed<fs::Node>> MakeNode(const fs::Context& context, const fs::Handle& directory, std::string_view name,
                                       const fs::NodeType& type, const fs::NewAttributes& attributes) override {
    return Slowly(files_->MakeNode(context, directory, name, type, attributes));
  }
  Task<fs::Changed<void>> Remove(const fs::Context& context, const fs::Handle& directory,
                                 std::string_view name) override {
    return Slowly(files_->Remove(context, directory, name));
  }
  Task<fs::Changed<void>> RemoveDirectory(const fs::Context& context, const fs::Handle& directory,
                                          std::string_view name) override {
    return Slowly(files_->RemoveDirectory(context, directory, name));
  }
  Task<fs::Renamed> Rename(const fs::Context& context, const fs::Handle& from_directory, std::string_view from_name,
                           const fs::Handle& to_directory, std::string_view to_name) override {
    return Slowly(files_->Rename(context, from_directory, from_name, to_directory, to_name));
  }
  Task<fs::Linked> Link(const fs::Context& context, const fs::Handle& file, const fs::Handle& directory,
                        std::string_view name) override {
    return Slowly(files_->Link(context, file, directory, name));
  }
  Task<fs::Observed<fs::ReadDirectoryReply>> ReadDirectory(const fs::Context& context, const fs::Handle& directory,
                                                           const fs::ReadDirectoryArguments& arguments,
                                                           fs::EntrySink& sink) override {
    return Slowly(files_->ReadDirectory(context, directory, arguments, sink));
  }
  Task<fs::Observed<fs::Space>> GetSpace(const fs::Context& context, const fs::Handle& object) override {
    return Slowly(files_->GetSpace(context, object));
  }
  Task<fs::Result<fs::Pinned>> Pin(const fs::Context& context, const fs::Handle& file) override {
    return Slowly(files_->Pin(context, file));
  }
  Task<fs::Observed<fs::SeekReply>> Seek(const fs::Context& context, const fs::Handle& file, uint64_t offset,
                                         fs::SeekWhat what) override {
    return Slowly(files_->Seek(context, file, offset, what));
  }
  Task<fs::Changed<void>> Allocate(const fs::Context& context, const fs::Handle& file, uint64_t offset,
                                   uint64_t length) override {
    return Slowly(files_->Allocate(context, file, offset, length));
  }
  Task<fs::Changed<void>> Deallocate(const fs::Context& context, const fs::Handle& file, uint64_t offset,
                                     uint64_t length) override {
    return Slowly(files_->Deallocate(context, file, offset, length));
  }
  Task<fs::Changed<fs::CopyReply>> Copy(const fs::Context& context, const fs::Handle& from, uint64_t from_offset,
                                        const fs::Handle& to, uint64_t to_offset, uint64_t count) override {
    return Slowly(files_->Copy(context, from, from_offset, to, to_offset, count));
  }
  Task<fs::Changed<void>> Clone(const fs::Context& context, const fs::Handle& from, uint64_t from_offset,
                                const fs::Handle& to, uint64_t to_offset, uint64_t count) override {
    return Slowly(files_->Clone(context, from, from_offset, to, to_offset, count));
  }
  Task<fs::Result<void>> Advise(const fs::Context& context, const fs::Handle& file, uint64_t offset, uint64_t count,
                                fs::Advice advice) override {
    return Slowly(files_->Advise(context, file, offset, count, advice));
  }
  Task<fs::Observed<std::vector<std::byte>>> GetXattr(const fs::Context& context, const fs::Handle& object,
                                                      std::string_view name) override {
    return Slowly(files_->GetXattr(context, object, name));
  }
  Task<fs::Changed<void>> SetXattr(const fs::Context& context, const fs::Handle& object, std::string_view name,
                                   ConstBytes value, fs::XattrMode mode) override {
    return Slowly(files_->SetXattr(context, object, name, value, mode));
  }
  Task<fs::Changed<void>> RemoveXattr(const fs::Context& context, const fs::Handle& object,
                                      std::string_view name) override {
    return Slowly(files_->RemoveXattr(context, object, name));
  }
  Task<fs::Observed<std::vector<std::string>>> ListXattrs(const fs::Context& context,
                                                          const fs::Handle& object) override {
    return Slowly(files_->ListXattrs(context, object));
  }
  Task<fs::Observed<fs::Acls>> GetAcls(const fs::Context& context, const fs::Handle& object) override {
    return Slowly(files_->GetAcls(context, object));
  }
  Task<fs::Changed<void>> SetAcls(const fs::Context& context, const fs::Handle& object,
                                  const fs::NewAcls& acls) override {
    return Slowly(files_->SetAcls(context, object, acls));
  }

 private:
  // `operation` begins when it is awaited.
  template <class T>
  Task<T> Slowly(Task<T> operation) {
    co_await Dawdle();
    T result = co_await std::move(operation);
    co_await Dawdle();
    co_return result;
  }

  Task<void> Dawdle() {
    if (hurried_ || max_delay_ == Duration::zero() || !world_.random().Chance(0.3)) co_return;
    Completion<> over;
    const auto timer = world_.MakeTimer([&over] { over.Set(); });
    timer->ExpireAfter(world_.random().UpTo(max_delay_));
    const auto place = waiting_.insert(waiting_.end(), &over);
    co_await over;
    waiting_.erase(place);
  }

  const std::shared_ptr<fs::FileSystem> files_;
  rdma::sim::World& world_;
  const Duration max_delay_;
  bool hurried_ = false;
  std::list<Completion<>*> waiting_;
};

}  // namespace penstock::simulation
