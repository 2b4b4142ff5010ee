// For tests: a client of a cluster that has one directory with one file, and that fails or hangs as a test wants.
#pragma once

#include <sys/xattr.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "fs/ceph/client.h"
#include "objects/memory_store.h"

namespace penstock::fs::ceph {

// What all clients of the cluster share. Any thread.
struct TestCluster {
  static constexpr InodeNumber kRoot{1, kNoSnapshot};
  static constexpr InodeNumber kFile{2, kNoSnapshot};

  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::vector<std::byte>> xattrs;  // of the directory
  std::string content;
  int error = 0;       // of every call, but those that end something
  int sync_error = 0;  // of the next sync
  bool hangs = false;  // every call waits
  bool syncs_hang = false;
  bool is_syncing = false;  // a sync hangs
  bool mounts = true;       // the cluster accepts clients
  size_t open_files = 0;
  size_t references = 0;
  size_t syncs = 0;
  // Called by the first attempt to set an attribute, before it is set.
  std::function<void()> before_set{};

  void Set(const std::function<void()>& change) {
    const std::lock_guard lock(mutex);
    change();
    changed.notify_all();
  }
  template <class T>
  T Get(T TestCluster::* member) {
    const std::lock_guard lock(mutex);
    return this->*member;
  }
};

class TestClient final : public Client {
 public:
  explicit TestClient(std::shared_ptr<TestCluster> cluster) : cluster_(std::move(cluster)) {}
  uint64_t fsid() const override { return 7; }
  uint64_t max_file_size() const override { return uint64_t{1} << 40; }
  int Root(Inode*& root) override { return Find(TestCluster::kRoot, root); }
  int Find(const InodeNumber& number, Inode*& inode) override {
    return Run([&] {
      if (number != TestCluster::kRoot && number != TestCluster::kFile) return -ESTALE;
      inode = reinterpret_cast<Inode*>(number.ino);
      ++cluster_->references;
      return 0;
    });
  }
  void Put(Inode*) override {
    const std::lock_guard lock(cluster_->mutex);
    --cluster_->references;
  }
  int Lookup(const Credentials&, Inode* directory, const std::string& name, Inode*& found, Stat& stat) override {
    const InodeNumber number = name == "file" ? TestCluster::kFile : TestCluster::kRoot;
    if (name != "file" && name != "..") return -ENOENT;
    (void)directory;
    if (const int code = Find(number, found); code < 0) return code;
    return GetAttributes(found, stat, Freshness::kCurrent);
  }
  int SetAttributes(const Credentials&, Inode*, const NewStat&) override { return -ENOSYS; }
  int Create(const Credentials&, Inode*, const std::string&, uint32_t, Inode*&, OpenFile*&, Stat&) override {
    return -ENOSYS;
  }
  int MakeDirectory(const Credentials&, Inode*, const std::string&, uint32_t, Inode*&, Stat&) override {
    return -ENOSYS;
  }
  int MakeSymlink(const Credentials&, Inode*, const std::string&, const std::string&, Inode*&, Stat&) override {
    return -ENOSYS;
  }
  int MakeNode(const Credentials&, Inode*, const std::string&, uint32_t, const Device&, Inode*&, Stat&) override {
    return -ENOSYS;
  }
  int Unlink(const Credentials&, Inode*, const std::string&) override { return -ENOSYS; }
  int RemoveDirectory(const Credentials&, Inode*, const std::string&) override { return -ENOSYS; }
  int Rename(const Credentials&, Inode*, const std::string&, Inode*, const std::string&) override { return -ENOSYS; }
  int Link(const Credentials&, Inode*, Inode*, const std::string&) override { return -ENOSYS; }
  int OpenDir(const Credentials&, Inode*, OpenDirectory*&) override { return -ENOSYS; }
  int GetXattr(const Credentials&, Inode*, const std::string& name, std::vector<std::byte>& value) override {
    return Run([&] {
      const auto found = cluster_->xattrs.find(name);
      if (found == cluster_->xattrs.end()) return -ENODATA;
      value = found->second;
      return 0;
    });
  }
  int SetXattr(const Credentials&, Inode*, const std::string& name, ConstBytes value, int flags) override {
    if (const auto before = std::exchange(cluster_->before_set, {})) before();
    return Run([&] {
      if ((flags & XATTR_CREATE) != 0 && cluster_->xattrs.contains(name)) return -EEXIST;
      cluster_->xattrs[name].assign(value.begin(), value.end());
      return 0;
    });
  }
  int RemoveXattr(const Credentials&, Inode*, const std::string&) override { return -ENOSYS; }
  int ListXattrs(const Credentials&, Inode*, std::vector<std::string>&) override { return -ENOSYS; }
  int GetAttributes(Inode* inode, Stat& stat, Freshness) override {
    return Run([&] {
      const bool is_root = reinterpret_cast<uint64_t>(inode) == TestCluster::kRoot.ino;
      stat.number = is_root ? TestCluster::kRoot : TestCluster::kFile;
      stat.attributes.type = is_root ? FileType::kDirectory : FileType::kRegular;
      stat.attributes.mode = 0777;
      stat.attributes.nlink = 1;
      stat.attributes.size = is_root ? 0 : cluster_->content.size();
      stat.attributes.fileid = stat.number.ino;
      return 0;
    });
  }
  int ReadLink(Inode*, std::string&) override { return -ENOSYS; }
  int GetTotals(Inode*, Totals&) override { return -ENOSYS; }
  int SyncInode(Inode*) override { return -ENOSYS; }
  int Open(Inode* inode, int, OpenFile*& file) override {
    return Run([&] {
      file = reinterpret_cast<OpenFile*>(inode);
      ++cluster_->open_files;
      return 0;
    });
  }
  void Close(OpenFile*) override {
    const std::lock_guard lock(cluster_->mutex);
    --cluster_->open_files;
  }
  int64_t Read(OpenFile*, uint64_t offset, Bytes into) override {
    return Run([&] {
      const size_t from = std::min<size_t>(offset, cluster_->content.size());
      const size_t count = std::min(into.size(), cluster_->content.size() - from);
      CopyBytes(into, AsBytes(std::string_view(cluster_->content).substr(from, count)));
      return static_cast<int>(count);
    });
  }
  int64_t Write(OpenFile*, uint64_t offset, std::span<const iovec> data) override {
    return Run([&] {
      const std::string_view text(static_cast<const char*>(data[0].iov_base), data[0].iov_len);
      cluster_->content.resize(std::max<size_t>(cluster_->content.size(), offset + text.size()));
      cluster_->content.replace(offset, text.size(), text);
      return static_cast<int>(text.size());
    });
  }
  int Sync(OpenFile*, bool) override {
    {
      std::unique_lock lock(cluster_->mutex);
      cluster_->is_syncing = cluster_->syncs_hang;
      cluster_->changed.wait(lock, [&] { return !cluster_->syncs_hang; });
    }
    return Run([&] {
      ++cluster_->syncs;
      return std::exchange(cluster_->sync_error, 0);
    });
  }
  int PunchHole(OpenFile*, uint64_t, uint64_t) override { return -ENOSYS; }
  void Seek(OpenDirectory*, int64_t) override {}
  int Next(OpenDirectory*, bool, Entry&) override { return -ENOSYS; }
  void CloseDir(OpenDirectory*) override {}
  void OnWantsFewer(std::function<void()>) override {}

 private:
  template <class Function>
  int Run(Function function) {
    std::unique_lock lock(cluster_->mutex);
    cluster_->changed.wait(lock, [&] { return !cluster_->hangs; });
    return cluster_->error != 0 ? cluster_->error : function();
  }

  const std::shared_ptr<TestCluster> cluster_;
};

class TestModule final : public Module {
 public:
  explicit TestModule(std::shared_ptr<TestCluster> cluster) : cluster_(std::move(cluster)) {}
  SetupResult<std::unique_ptr<Client>> Mount(const Location&, const std::string&, std::chrono::seconds) override {
    const std::lock_guard lock(cluster_->mutex);
    if (!cluster_->mounts) return std::unexpected(SetupError{"the cluster accepts nobody"});
    cluster_->error = 0;  // of the client before
    return std::make_unique<TestClient>(cluster_);
  }
  SetupResult<std::unique_ptr<objects::Store>> OpenPool(const ClusterLocation&, std::chrono::seconds) override {
    return std::make_unique<objects::MemoryStore>();
  }

 private:
  const std::shared_ptr<TestCluster> cluster_;
};

}  // namespace penstock::fs::ceph
