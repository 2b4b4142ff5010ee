#include "fs/posix/table_handles.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include "fs/errno.h"
#include "fs/export_key.h"
#include "fs/names.h"
#include "fs/posix/path.h"

namespace penstock::fs::posix {
namespace {

constexpr int64_t kRootId = 1;
constexpr int kMaxDepth = 1000;
// { kind: 1, tag: 8, id: 8, file system: 8, inode: 8, time of birth: 8 }
constexpr size_t kIdAt = 9;
constexpr size_t kObjectAt = 17;
constexpr size_t kHandleSize = 41;
static_assert(kHandleSize <= Handle::kMaxSize);

constexpr DatabaseLayout kLayout{
    .settings = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;",
    .schema = R"(
  CREATE TABLE objects (
    id INTEGER PRIMARY KEY, device INTEGER NOT NULL, inode INTEGER NOT NULL, born INTEGER NOT NULL,
    UNIQUE (device, inode));
  CREATE TABLE names (
    parent INTEGER NOT NULL, name BLOB NOT NULL, object INTEGER NOT NULL, PRIMARY KEY (parent, name)) WITHOUT ROWID;
  CREATE INDEX names_of_object ON names (object);
)",
    .version = 0,
    .loss = "without it, clients must mount again",
};

// Nanoseconds; zero if the file system does not record it.
int64_t BirthOf(const Stat& stat) {
  const Timestamp born = stat.attributes.born.value_or(Timestamp());
  return born.seconds * 1'000'000'000 + born.nanoseconds;
}

// The object may exist, but this cannot be decided now.
bool IsTrouble(Error error) { return error == Error::kDelay || error == Error::kIo; }

// Searches the whole directory for the name of `inode`. Fails with kDelay if no descriptor is left to read it.
Result<std::optional<std::string>> SearchDirectory(int directory, uint64_t inode) {
  const Result<FileDescriptor> readable = Reopen(directory, O_RDONLY | O_DIRECTORY);
  if (!readable && IsTrouble(readable.error())) return std::unexpected(readable.error());
  if (!readable) return std::nullopt;
  struct Close {
    void operator()(DIR* stream) const { ::closedir(stream); }
  };
  const int duplicate = ::fcntl(readable->get(), F_DUPFD_CLOEXEC, 0);
  if (duplicate < 0) return LastError();
  const std::unique_ptr<DIR, Close> stream(::fdopendir(duplicate));
  if (!stream) {
    const auto error = LastError();
    ::close(duplicate);
    return error;
  }
  while (const dirent* entry = ::readdir(stream.get())) {  // NOLINT(concurrency-mt-unsafe): the stream is local
    if (entry->d_ino == inode && !IsDots(entry->d_name)) return entry->d_name;
  }
  return std::nullopt;
}

}  // namespace

SetupResult<std::unique_ptr<TableHandles>> TableHandles::Make(int root, const Volume& volume, const SipKey& key,
                                                              std::string_view export_name, Covers covers,
                                                              const std::filesystem::path& file) {
  PENSTOCK_TRY(std::unique_ptr<Database> database, Database::Open(file, kLayout));
  Database& opened = *database;
  std::unique_ptr<TableHandles> handles(new TableHandles(root, volume, std::move(covers), std::move(database)));

  const Result<Stat> stat = StatOf(root, volume);
  if (!stat)
    return std::unexpected(
        SetupError{fmt::format("cannot read the attributes of the exported directory: {}", ToString(stat.error()))});
  std::optional<Row> row = handles->FindRow(kRootId);
  if (handles->by_id_.failed()) return std::unexpected(opened.Failure("read"));
  // The table is that of another directory at the same path, or new: all its rows are discarded.
  if (!row || row->inode != static_cast<int64_t>(stat->attributes.fileid) || row->born != BirthOf(*stat)) {
    if (!opened.Execute("DELETE FROM objects; DELETE FROM names;")) return std::unexpected(opened.Failure("write"));
    const Result<Row> added = handles->AddRow(*stat);
    if (!added) return std::unexpected(opened.Failure("write"));
    assert(added->id == kRootId);
    row = *added;
  }
  std::byte identity[16];
  StoreBig<uint64_t>(identity, static_cast<uint64_t>(row->inode));
  StoreBig<uint64_t>(identity + 8, static_cast<uint64_t>(row->born));
  handles->key_ = KeyOfExport(key, export_name, identity);
  handles->root_handle_ = handles->MakeHandle(*row);
  return handles;
}

TableHandles::TableHandles(int root, const Volume& volume, Covers covers, std::unique_ptr<Database> database)
    : root_(root),
      volume_(volume),
      covers_(std::move(covers)),
      database_(std::move(database)),
      by_id_(*database_, "SELECT id, device, inode, born FROM objects WHERE id = ?"),
      by_inode_(*database_, "SELECT id, device, inode, born FROM objects WHERE device = ? AND inode = ?"),
      add_row_(*database_, "INSERT INTO objects (device, inode, born) VALUES (?, ?, ?)"),
      drop_row_(*database_, "DELETE FROM objects WHERE id = ?"),
      drop_names_(*database_, "DELETE FROM names WHERE object = ?1 OR parent = ?1"),
      names_of_(*database_, "SELECT parent, name FROM names WHERE object = ?"),
      name_at_(*database_, "SELECT object FROM names WHERE parent = ? AND name = ?"),
      set_name_(*database_, "INSERT OR REPLACE INTO names (parent, name, object) VALUES (?, ?, ?)"),
      drop_name_(*database_, "DELETE FROM names WHERE parent = ? AND name = ?"),
      move_name_(*database_, "UPDATE OR REPLACE names SET parent = ?, name = ? WHERE parent = ? AND name = ?") {}

// The identity is the file system and the number in the table. The root's own file system is zero.
Handle TableHandles::MakeHandle(const Row& row) const {
  std::byte bytes[kHandleSize];
  bytes[0] = static_cast<std::byte>(HandleKind::kTable);
  StoreBig<uint64_t>(bytes + kIdAt, static_cast<uint64_t>(row.id));
  StoreBig<uint64_t>(bytes + kObjectAt, volume_.fsid ^ static_cast<uint64_t>(row.device));
  StoreBig<uint64_t>(bytes + kObjectAt + 8, static_cast<uint64_t>(row.inode));
  StoreBig<uint64_t>(bytes + kObjectAt + 16, static_cast<uint64_t>(row.born));
  StoreBig<uint64_t>(bytes + kTagAt, SipHash(key_, ConstBytes(bytes).subspan(kIdAt)));
  return *Handle::FromBytes(bytes);
}

Result<Identity> TableHandles::Identify(const Handle& handle) const {
  const ConstBytes bytes = handle.bytes();
  PENSTOCK_CHECK(CheckKind(bytes, HandleKind::kTable, kHandleSize));
  // The handle is forged, is another export's, or was signed with a lost key.
  if (bytes.size() != kHandleSize || LoadBig<uint64_t>(bytes.data() + kTagAt) != SipHash(key_, bytes.subspan(kIdAt))) {
    return std::unexpected(Error::kBadHandle);
  }
  return Identity{volume_.superblock, *Handle::FromBytes(bytes.subspan(kObjectAt))};
}

std::optional<TableHandles::Row> TableHandles::FindRow(int64_t id) {
  std::optional<Row> row;
  if (by_id_.Bind(id).Step()) {
    row = Row{by_id_.Integer(0), by_id_.Integer(1), by_id_.Integer(2), by_id_.Integer(3)};
  }
  by_id_.Reset();
  return row;
}

std::optional<TableHandles::Row> TableHandles::RowOf(const Handle& handle) {
  if (!Identify(handle)) return std::nullopt;
  std::optional<Row> row = FindRow(static_cast<int64_t>(LoadBig<uint64_t>(handle.bytes().data() + kIdAt)));
  // The id was reused for another object.
  if (row && MakeHandle(*row) != handle) row.reset();
  return row;
}

// If an inode number has another time of birth, it was reused: the earlier object is gone.
std::optional<TableHandles::Row> TableHandles::FindRow(const Stat& stat) {
  std::optional<Row> row;
  Statement& query = by_inode_;
  if (query.Bind(static_cast<int64_t>(stat.device), static_cast<int64_t>(stat.attributes.fileid)).Step()) {
    row = Row{query.Integer(0), query.Integer(1), query.Integer(2), query.Integer(3)};
  }
  query.Reset();
  if (row && row->born != BirthOf(stat)) {
    DropRow(row->id);
    row.reset();
  }
  return row;
}

Result<TableHandles::Row> TableHandles::AddRow(const Stat& stat) {
  Row row{0, static_cast<int64_t>(stat.device), static_cast<int64_t>(stat.attributes.fileid), BirthOf(stat)};
  if (!add_row_.Bind(row.device, row.inode, row.born).Run()) return std::unexpected(Error::kServerFault);
  row.id = sqlite3_last_insert_rowid(database_->get());
  return row;
}

void TableHandles::DropRow(int64_t id) {
  drop_names_.Bind(id).Run();
  drop_row_.Bind(id).Run();
}

std::vector<TableHandles::Name> TableHandles::NamesOf(int64_t id) {
  std::vector<Name> names;
  names_of_.Bind(id);
  while (names_of_.Step()) names.push_back({names_of_.Integer(0), names_of_.Text(1)});
  names_of_.Reset();
  return names;
}

// Most names are known already, and reading is cheaper than writing.
bool TableHandles::SetName(int64_t parent, std::string_view name, int64_t id) {
  const bool known = name_at_.Bind(parent, name).Step() && name_at_.Integer(0) == id;
  name_at_.Reset();
  return known || set_name_.Bind(parent, name, id).Run();
}

Result<Handle> TableHandles::HandleOf(int, const Stat& stat, const Handle& parent, std::string_view name) {
  std::lock_guard lock(mutex_);
  const std::optional<Row> directory = RowOf(parent);
  if (!directory) return std::unexpected(by_id_.failed() ? Error::kIo : Error::kStale);
  std::optional<Row> row = FindRow(stat);
  if (!row) {
    PENSTOCK_TRY(row, AddRow(stat));
  }
  if (row->id != kRootId && !SetName(directory->id, name, row->id)) return std::unexpected(Error::kServerFault);
  return MakeHandle(*row);
}

// A directory gets its row when it is found in a directory with a row, so its parent has one.
Result<Handle> TableHandles::HandleOfParent(int, const Stat& stat) {
  std::lock_guard lock(mutex_);
  const std::optional<Row> row = FindRow(stat);
  if (!row) return std::unexpected(by_inode_.failed() ? Error::kIo : Error::kStale);
  return MakeHandle(*row);
}

Result<FileDescriptor> TableHandles::Open(const Handle& handle) {
  if (const auto known = Identify(handle); !known) return std::unexpected(known.error());
  std::lock_guard lock(mutex_);
  const std::optional<Row> row = RowOf(handle);
  if (!row) return std::unexpected(by_id_.failed() ? Error::kIo : Error::kStale);
  return OpenRow(*row, 0);
}

Result<FileDescriptor> TableHandles::OpenRow(const Row& row, int depth) {
  if (row.id == kRootId) return Reopen(root_, O_PATH);
  if (depth == kMaxDepth) return std::unexpected(Error::kStale);
  const std::vector<Name> names = NamesOf(row.id);
  if (names_of_.failed()) return std::unexpected(Error::kIo);
  for (const Name& name : names) {
    const std::optional<Row> parent = FindRow(name.parent);
    if (by_id_.failed()) return std::unexpected(Error::kIo);
    if (!parent) continue;
    Result<FileDescriptor> directory = OpenRow(*parent, depth + 1);
    if (!directory && IsTrouble(directory.error())) return directory;
    if (!directory) continue;
    Result<FileDescriptor> opened = OpenNamed(directory->get(), name.name, row);
    if (opened || IsTrouble(opened.error())) return opened;
    // Another program may have renamed the object.
    PENSTOCK_TRY(const auto other, SearchDirectory(directory->get(), static_cast<uint64_t>(row.inode)));
    drop_name_.Bind(name.parent, std::string_view(name.name)).Run();
    if (other) {
      opened = OpenNamed(directory->get(), *other, row);
      if (opened && SetName(name.parent, *other, row.id)) return opened;
    }
  }
  return std::unexpected(Error::kStale);
}

Result<FileDescriptor> TableHandles::OpenNamed(int directory, const std::string& name, const Row& row) {
  if (covers_.HasPlace(directory, name)) return std::unexpected(Error::kStale);
  Result<FileDescriptor> opened = *OpenEntry(directory, name, Patience::kMayBlock);
  if (!opened) return opened;
  const Result<Stat> stat = StatOf(opened->get(), volume_);
  if (!stat || static_cast<int64_t>(stat->attributes.fileid) != row.inode ||
      static_cast<int64_t>(stat->device) != row.device || BirthOf(*stat) != row.born || covers_.Has(*stat)) {
    return std::unexpected(Error::kStale);
  }
  return opened;
}

void TableHandles::NameRemoved(const Handle& parent, std::string_view name, const Handle& object, bool last) {
  std::lock_guard lock(mutex_);
  if (const auto directory = RowOf(parent)) drop_name_.Bind(directory->id, name).Run();
  if (!last) return;
  if (const auto row = RowOf(object)) DropRow(row->id);
}

void TableHandles::NameMoved(const Handle& from, std::string_view from_name, const Handle& to,
                             std::string_view to_name) {
  std::lock_guard lock(mutex_);
  const auto source = RowOf(from);
  const auto target = RowOf(to);
  if (source && target) move_name_.Bind(target->id, to_name, source->id, from_name).Run();
}

}  // namespace penstock::fs::posix
