// Handles for file systems where kernel handles are not available. Each object that a client has seen gets a number,
// and a table in the state directory keeps the names by which it was seen.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/database/database.h"
#include "base/siphash.h"
#include "fs/posix/covers.h"
#include "fs/posix/handles.h"

namespace penstock::fs::posix {

// A handle is resolved by the names of its object, one directory at a time. It is valid only if the result is the
// same inode with the same time of birth. Renames by the server are recorded. After a rename by another program
// within a directory, the object is found by its inode number, at the cost of reading that directory. After a move to
// another directory the handle is stale until a client finds the object there, which then has the same handle as
// before. A handle is signed with the export's own key, so that it cannot be guessed.
class TableHandles final : public HandleSource {
 public:
  // Opens the table in `file`, or creates it. `root` outlives the instance.
  static SetupResult<std::unique_ptr<TableHandles>> Make(int root, const Volume& volume, const SipKey& key,
                                                         std::string_view export_name, Covers covers,
                                                         const std::filesystem::path& file);

  Handle Root() const override { return root_handle_; }
  Result<Identity> Identify(const Handle& handle) const override;
  bool may_block() const override { return true; }
  Result<Handle> HandleOf(int fd, const Stat& stat, const Handle& parent, std::string_view name) override;
  Result<Handle> HandleOfParent(int fd, const Stat& stat) override;
  Result<FileDescriptor> Open(const Handle& handle) override;
  void NameRemoved(const Handle& parent, std::string_view name, const Handle& object, bool last) override;
  void NameMoved(const Handle& from, std::string_view from_name, const Handle& to, std::string_view to_name) override;

 private:
  struct Row {
    int64_t id = 0;
    int64_t device = 0, inode = 0, born = 0;
  };
  struct Name {
    int64_t parent = 0;
    std::string name;
  };

  TableHandles(int root, const Volume& volume, Covers covers, std::unique_ptr<Database> database);

  // The caller of the following methods holds mutex_.
  std::optional<Row> RowOf(const Handle& handle);
  std::optional<Row> FindRow(int64_t id);
  std::optional<Row> FindRow(const Stat& stat);
  Result<Row> AddRow(const Stat& stat);
  void DropRow(int64_t id);
  std::vector<Name> NamesOf(int64_t id);
  bool SetName(int64_t parent, std::string_view name, int64_t id);
  Result<FileDescriptor> OpenRow(const Row& row, int depth);
  Result<FileDescriptor> OpenNamed(int directory, const std::string& name, const Row& row);

  Handle MakeHandle(const Row& row) const;

  const int root_;
  const Volume volume_;
  const Covers covers_;
  std::mutex mutex_;
  std::unique_ptr<Database> database_;
  Statement by_id_, by_inode_, add_row_, drop_row_, drop_names_;
  Statement names_of_, name_at_, set_name_, drop_name_, move_name_;
  SipKey key_{};
  Handle root_handle_;
};

}  // namespace penstock::fs::posix
