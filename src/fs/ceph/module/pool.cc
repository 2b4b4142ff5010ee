#include "fs/ceph/module/pool.h"

#include <fmt/format.h>
#include <rados/librados.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "fs/ceph/module/cluster.h"

namespace penstock::fs::ceph {
namespace {

constexpr size_t kPiece = 64 << 10;
constexpr uint64_t kEntriesAtOnce = 1000;

// The members of a cluster show that they live, also when the pool is full. Otherwise they would all end, and nobody
// could remove files through them. What they write for that takes little room.
class WriteOperation {
 public:
  WriteOperation() : operation_(::rados_create_write_op()) {}
  WriteOperation(const WriteOperation&) = delete;
  WriteOperation& operator=(const WriteOperation&) = delete;
  ~WriteOperation() { ::rados_release_write_op(operation_); }
  rados_write_op_t get() const { return operation_; }
  // If the pool is full, the OSDs keep an operation back, unless it is forced, or is one that is only tried.
  enum class IfFull { kForce = LIBRADOS_OPERATION_FULL_FORCE, kTry = LIBRADOS_OPERATION_FULL_TRY };
  int Run(rados_ioctx_t pool, const std::string& name, IfFull if_full = IfFull::kForce) {
    return ::rados_write_op_operate(operation_, pool, name.c_str(), nullptr, static_cast<int>(if_full));
  }

 private:
  const rados_write_op_t operation_;
};

class Pool final : public objects::Store {
 public:
  Pool(std::unique_ptr<Cluster> cluster, rados_ioctx_t pool, rados_ioctx_t reader)
      : cluster_(std::move(cluster)), pool_(pool), reader_(reader) {}
  ~Pool() override {
    ::rados_ioctx_destroy(reader_);
    ::rados_ioctx_destroy(pool_);
  }

  int Read(const std::string& name, Object& object) override {
    const std::lock_guard lock(reading_);
    object = {};
    for (;;) {
      const size_t at = object.content.size();
      object.content.resize(at + kPiece);
      const int got = ::rados_read(reader_, name.c_str(), object.content.data() + at, kPiece, at);
      if (got < 0) return got;
      object.content.resize(at + static_cast<size_t>(got));
      const uint64_t version = ::rados_get_last_version(reader_);
      if (at != 0 && version != object.version) {  // it was changed between two pieces
        object = {};
        continue;
      }
      object.version = version;
      if (static_cast<size_t>(got) < kPiece) return 0;
    }
  }
  int Replace(const std::string& name, uint64_t version, std::string_view content) override {
    WriteOperation operation;
    if (version == 0) {
      ::rados_write_op_create(operation.get(), LIBRADOS_CREATE_EXCLUSIVE, nullptr);
    } else {
      ::rados_write_op_assert_version(operation.get(), version);
    }
    ::rados_write_op_write_full(operation.get(), content.data(), content.size());
    const int code = operation.Run(pool_, name);
    const bool is_other = code == -EEXIST || code == -ENOENT || code == -ERANGE || code == -EOVERFLOW;
    return is_other ? -ECANCELED : code;
  }
  int WriteAt(const std::string& name, uint64_t offset, ConstBytes octets) override {
    WriteOperation operation;
    ::rados_write_op_assert_exists(operation.get());
    ::rados_write_op_write(operation.get(), reinterpret_cast<const char*>(octets.data()), octets.size(), offset);
    return operation.Run(pool_, name, WriteOperation::IfFull::kTry);
  }
  int Remove(const std::string& name) override { return SucceedWithout(::rados_remove(pool_, name.c_str())); }

  int SetEntry(const std::string& name, const std::string& key, std::string_view value) override {
    WriteOperation operation;
    const char *keys[] = {key.c_str()}, *values[] = {value.data()};
    const size_t sizes[] = {value.size()};
    ::rados_write_op_assert_exists(operation.get());
    ::rados_write_op_omap_set(operation.get(), keys, values, sizes, 1);
    return operation.Run(pool_, name);
  }
  int RemoveEntry(const std::string& name, const std::string& key) override {
    WriteOperation operation;
    const char* keys[] = {key.c_str()};
    // Without this, the operation would create the object.
    ::rados_write_op_assert_exists(operation.get());
    ::rados_write_op_omap_rm_keys(operation.get(), keys, 1);
    return SucceedWithout(operation.Run(pool_, name));
  }
  int ListEntries(const std::string& name, std::map<std::string, std::string>& entries) override {
    entries.clear();
    std::string after;
    for (;;) {
      rados_omap_iter_t found = nullptr;
      unsigned char more = 0;
      int listed = 0;
      const rados_read_op_t operation = ::rados_create_read_op();
      ::rados_read_op_omap_get_vals2(operation, after.c_str(), nullptr, kEntriesAtOnce, &found, &more, &listed);
      const int code = ::rados_read_op_operate(operation, pool_, name.c_str(), LIBRADOS_OPERATION_NOFLAG);
      if (code >= 0 && listed >= 0) {
        char *key = nullptr, *value = nullptr;
        size_t key_size = 0, size = 0;
        while (::rados_omap_get_next2(found, &key, &value, &key_size, &size) == 0 && key) {
          after.assign(key, key_size);
          entries[after].assign(value ? value : "", size);
        }
      }
      if (found) ::rados_omap_get_end(found);
      ::rados_release_read_op(operation);
      if (code < 0) return SucceedWithout(code);
      if (listed < 0) return listed;
      if (more == 0) return 0;
    }
  }

  int ListNames(std::string_view prefix, std::vector<std::string>& names) override {
    names.clear();
    rados_list_ctx_t list = nullptr;
    if (const int code = ::rados_nobjects_list_open(pool_, &list); code < 0) return code;
    const char* name = nullptr;
    int code = 0;
    while ((code = ::rados_nobjects_list_next(list, &name, nullptr, nullptr)) == 0) {
      if (std::string_view(name).starts_with(prefix)) names.emplace_back(name);
    }
    ::rados_nobjects_list_close(list);
    return SucceedWithout(code);
  }

 private:
  static int SucceedWithout(int code) { return code == -ENOENT ? 0 : code; }

  const std::unique_ptr<Cluster> cluster_;
  const rados_ioctx_t pool_;
  // One for reading alone: librados tells a version for the last operation of all threads.
  const rados_ioctx_t reader_;
  std::mutex reading_;
};

}  // namespace

SetupResult<std::unique_ptr<objects::Store>> OpenPool(const ClusterLocation& location, std::chrono::seconds patience) {
  const auto fail = [&](const std::string& what) {
    return std::unexpected(SetupError{fmt::format("the cluster {}: {}", location.name, what)});
  };
  const std::string limit = std::to_string(patience.count());
  const Setting settings[] = {{"rados_osd_op_timeout", limit}, {"rados_mon_op_timeout", limit}};
  auto cluster = Connect(location.conf, location.user, patience, settings);
  if (!cluster) return fail(cluster.error().message);
  rados_ioctx_t contexts[2] = {};
  for (rados_ioctx_t& each : contexts) {
    const int code = ::rados_ioctx_create((*cluster)->get(), location.pool.c_str(), &each);
    if (code >= 0) {
      ::rados_ioctx_set_namespace(each, location.name.c_str());
      continue;
    }
    if (contexts[0]) ::rados_ioctx_destroy(contexts[0]);
    if (code != -ENOENT) return fail(fmt::format("the pool {}: {}", location.pool, std::strerror(-code)));
    return fail(fmt::format("there is no pool {0}: make it (ceph osd pool create {0}), or name another one with pool=",
                            location.pool));
  }
  return std::make_unique<Pool>(*std::move(cluster), contexts[0], contexts[1]);
}

}  // namespace penstock::fs::ceph
