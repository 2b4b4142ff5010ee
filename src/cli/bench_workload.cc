#include "cli/bench_workload.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/buffer.h"
#include "base/signal.h"

namespace penstock::cli {
namespace {

using Kind = Operation::Kind;

constexpr unsigned kFilesOfADirectory = 100;
// The calls that are under way while the workload makes or removes its objects.
constexpr unsigned kAtOnce = 16;

std::string TreeDirectoryName(size_t number) { return fmt::format("d{}", number); }
std::string FileName(size_t number) { return fmt::format("f{}", number); }

bool NeedsFile(const Operation& operation) { return operation.has_size() || operation.kind == Kind::kSetAttributes; }
bool NeedsTree(const Operation& operation) {
  return operation.kind == Kind::kLookup || operation.kind == Kind::kStat || operation.kind == Kind::kReadDirectory ||
         operation.kind == Kind::kOpen;
}
bool NeedsNames(const Operation& operation) {
  return operation.kind == Kind::kCreate || operation.kind == Kind::kRemove || operation.kind == Kind::kRename ||
         operation.kind == Kind::kMakeDirectory;
}

}  // namespace

Workload::Workload(client::Mount& mount, unsigned number, const Settings& settings)
    : mount_(mount),
      name_(fmt::format(".penstock-bench-{}-{}", ::getpid(), number)),
      settings_(settings),
      random_(0x9e3779b97f4a7c15 + number) {}

// ---- the objects on the server ----

Task<client::Result<void>> Workload::Prepare(const std::vector<Operation>& operations) {
  for (const Operation& operation : operations) {
    if (operation.kind == Kind::kOpen && mount_.version() == "3") {
      co_return std::unexpected(client::Error{"open: version 3 has no call that opens a file", {}});
    }
    if (const uint32_t most = Largest(operation); SizeOf(operation) > most) {
      co_return std::unexpected(
          client::Error{fmt::format("{}: one call carries at most {} octets", NameOf(operation), most), {}});
    }
  }
  PENSTOCK_CO_TRY(const client::Node parent, co_await mount_.Resolve(mount_.path()));
  parent_ = parent.handle;
  const bool file = std::ranges::any_of(operations, NeedsFile), tree = std::ranges::any_of(operations, NeedsTree),
             names = std::ranges::any_of(operations, NeedsNames);
  if (!file && !tree && !names) co_return client::Result<void>();
  PENSTOCK_CO_TRY(const client::Node directory, co_await mount_.MakeDirectory(parent_, name_, 0700));
  directory_ = directory.handle;
  if (file) PENSTOCK_CO_CHECK(co_await MakeFile());
  if (tree) PENSTOCK_CO_CHECK(co_await MakeTree());
  if (names) {
    PENSTOCK_CO_TRY(const client::Node made, co_await mount_.MakeDirectory(directory_, "names", 0700));
    names_ = made.handle;
  }
  co_return client::Result<void>();
}

Task<client::Result<void>> Workload::MakeFile() {
  PENSTOCK_CO_TRY(file_, co_await mount_.CreateFile(directory_, "file", 0600));
  const BufferRef buffer = mount_.loop().buffers().Allocate(kLargestOperation);
  std::memset(buffer->data(), 0x5a, kLargestOperation);
  for (uint64_t done = 0; done < settings_.file_size;) {
    const uint64_t part =
        std::min<uint64_t>(std::min(kLargestOperation, mount_.sizes().write), settings_.file_size - done);
    PENSTOCK_CO_TRY(const auto written, co_await file_->Write(done, buffer->bytes().first(part)));
    done += written.count;
  }
  PENSTOCK_CO_TRY([[maybe_unused]] const auto verifier, co_await file_->Commit());
  co_return client::Result<void>();
}

Task<client::Result<void>> Workload::MakeTree() {
  const unsigned directories = (settings_.tree_files + kFilesOfADirectory - 1) / kFilesOfADirectory;
  tree_.resize(directories);
  for (unsigned number = 0; number < directories; ++number) PENSTOCK_CO_CHECK(co_await MakeTreeDirectory(number));
  co_return client::Result<void>();
}

Task<client::Result<void>> Workload::MakeTreeDirectory(unsigned number) {
  TreeDirectory& directory = tree_[number];
  PENSTOCK_CO_TRY(const client::Node made, co_await mount_.MakeDirectory(directory_, TreeDirectoryName(number), 0700));
  directory.handle = made.handle;
  const unsigned files = std::min(kFilesOfADirectory, settings_.tree_files - number * kFilesOfADirectory);
  directory.files.resize(files);
  co_return co_await ForAll(files, [this, &directory](unsigned each) -> Task<client::Result<void>> {
    PENSTOCK_CO_TRY(const auto file, co_await mount_.CreateFile(directory.handle, FileName(each), 0600));
    directory.files[each] = file->node();
    co_return co_await file->Close();
  });
}

Task<client::Result<void>> Workload::MakeRenamed(unsigned workers) {
  for (auto at = static_cast<unsigned>(renamed_.size()); at < workers; ++at) {
    renamed_.push_back({.name = fmt::format("a{}", at), .other = fmt::format("b{}", at)});
    PENSTOCK_CO_CHECK(co_await Create(renamed_.back().name));
  }
  co_return client::Result<void>();
}

Task<client::Result<void>> Workload::ForAll(unsigned count, Each each) {
  unsigned next = 0, working = std::min(count, kAtOnce);
  client::Result<void> result;
  Signal ended;
  const auto work = [&]() -> Task<void> {
    while (next < count && result) {
      if (client::Result<void> done = co_await each(next++); !done && result) result = std::move(done);
    }
    --working;
    ended.Notify();
  };
  for (unsigned worker = working; worker > 0; --worker) Spawn(work());
  while (working > 0) co_await ended;
  co_return result;
}

Task<client::Result<void>> Workload::CleanUp() {
  client::Result<void> result;
  if (file_) result = co_await file_->Close();
  file_.reset();
  if (directory_ == client::Handle()) co_return result;
  client::Result<void> removed = co_await Empty(directory_);
  if (removed) removed = co_await mount_.RemoveDirectory(parent_, name_);
  if (result) result = std::move(removed);
  co_return result;
}

// Removes everything below a directory.
Task<client::Result<void>> Workload::Empty(const client::Handle& directory) {
  std::vector<std::string> files, directories;
  PENSTOCK_CO_CHECK(co_await mount_.List(directory, name_, [&](client::Entry entry) {
    const bool is_directory = entry.attributes && entry.attributes->type == client::FileType::kDirectory;
    (is_directory ? directories : files).push_back(std::move(entry.name));
  }));
  PENSTOCK_CO_CHECK(co_await ForAll(static_cast<unsigned>(files.size()),
                                    [&](unsigned each) { return mount_.Remove(directory, files[each]); }));
  for (const std::string& name : directories) {
    PENSTOCK_CO_TRY(const client::Node below, co_await mount_.Lookup(directory, name));
    PENSTOCK_CO_CHECK(co_await Empty(below.handle));
    PENSTOCK_CO_CHECK(co_await mount_.RemoveDirectory(directory, name));
  }
  co_return client::Result<void>();
}

// ---- one operation ----

uint32_t Workload::Largest(const Operation& operation) const {
  const client::TransferSizes& most = mount_.sizes();
  if (operation.kind == Kind::kRead) return most.read;
  if (operation.kind == Kind::kWrite) return most.write;
  return std::min(most.read, most.write);
}

uint32_t Workload::SizeOf(const Operation& operation) const {
  return operation.size == kLargestOperation ? std::min(operation.size, Largest(operation)) : operation.size;
}

Task<client::Result<void>> Workload::Execute(Operation operation, unsigned worker, uint64_t ticket, Bytes buffer) {
  switch (operation.kind) {
    case Kind::kNull:
      co_return co_await mount_.Ping();
    case Kind::kGetAttributes: {
      PENSTOCK_CO_TRY([[maybe_unused]] const auto attributes, co_await mount_.GetAttributes(parent_, "GETATTR"));
      break;
    }
    case Kind::kSetAttributes: {
      client::NewAttributes attributes;
      attributes.mode = 0600 + sequence_++ % 8;
      co_return co_await mount_.SetAttributes(file_->node().handle, "SETATTR", attributes);
    }
    case Kind::kLookup: {
      const TreeDirectory& directory = tree_[RandomBelow(tree_.size())];
      const size_t file = RandomBelow(directory.files.size());
      PENSTOCK_CO_TRY([[maybe_unused]] const auto node, co_await mount_.Lookup(directory.handle, FileName(file)));
      break;
    }
    case Kind::kStat: {
      const size_t directory = RandomBelow(tree_.size());
      const std::string path = fmt::format("{}/{}/{}/{}", mount_.path(), name_, TreeDirectoryName(directory),
                                           FileName(RandomBelow(tree_[directory].files.size())));
      PENSTOCK_CO_TRY([[maybe_unused]] const auto node, co_await mount_.Resolve(path));
      break;
    }
    case Kind::kReadDirectory:
      co_return co_await mount_.List(tree_[RandomBelow(tree_.size())].handle, "READDIR", [](const client::Entry&) {});
    case Kind::kOpen: {
      const TreeDirectory& directory = tree_[RandomBelow(tree_.size())];
      const client::Node& node = directory.files[RandomBelow(directory.files.size())];
      PENSTOCK_CO_TRY(const auto file, co_await mount_.OpenFile(node, "OPEN", client::Access::kRead));
      co_return co_await file->Close();
    }
    case Kind::kCreate:
      co_return co_await Create(FileName(ticket));
    case Kind::kRemove:
      co_return co_await mount_.Remove(names_, FileName(ticket));
    case Kind::kRename: {
      Renamed& file = renamed_[worker];
      PENSTOCK_CO_CHECK(co_await mount_.Rename(names_, file.name, names_, file.other));
      std::swap(file.name, file.other);
      break;
    }
    case Kind::kMakeDirectory: {
      const std::string name = fmt::format("d{}", worker);
      PENSTOCK_CO_TRY([[maybe_unused]] const auto made, co_await mount_.MakeDirectory(names_, name, 0700));
      co_return co_await mount_.RemoveDirectory(names_, name);
    }
    case Kind::kRead:
    case Kind::kWrite:
    case Kind::kMix:
      co_return co_await Transfer(operation, buffer);
  }
  co_return client::Result<void>();
}

Task<client::Result<void>> Workload::Create(std::string name) {
  PENSTOCK_CO_TRY(const auto file, co_await mount_.CreateFile(names_, name, 0600));
  co_return co_await file->Close();
}

Task<client::Result<void>> Workload::Transfer(Operation operation, Bytes buffer) {
  const uint64_t offset = NextOffset(operation);
  const bool reads =
      operation.kind == Kind::kRead || (operation.kind == Kind::kMix && Random() % 100 < settings_.read_percent);
  uint32_t count = 0;
  if (reads) {
    PENSTOCK_CO_TRY(const auto read, co_await file_->Read(offset, buffer));
    count = read.count;
  } else {
    PENSTOCK_CO_TRY(const auto written, co_await file_->Write(offset, buffer));
    count = written.count;
  }
  if (count != buffer.size()) co_return std::unexpected(client::Error{reads ? "READ: short" : "WRITE: short", {}});
  co_return client::Result<void>();
}

uint64_t Workload::NextOffset(const Operation& operation) {
  const uint32_t size = SizeOf(operation);
  const uint64_t places = settings_.file_size / size;
  return (operation.is_sequential() ? sequence_++ : Random()) % places * size;
}

// xorshift gives the same sequence in every run.
uint64_t Workload::Random() {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return random_;
}

}  // namespace penstock::cli
