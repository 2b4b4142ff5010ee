// The methods of EmbeddedCalls for names: directories, and objects that come and go.
#include <climits>
#include <utility>

#include "fs/names.h"
#include "library/server/embedded.h"
#include "library/server/embedded_call.h"
#include "library/structures.h"

namespace penstock::library {

using fs::Error;
using fs::FileType;

namespace {

constexpr uint64_t kFirstCookie = 3;  // of the host's entries: the server lists "." and ".."

penstock_file_type TypeFor(FileType type) {
  switch (type) {
    case FileType::kBlock:
      return PENSTOCK_BLOCK_DEVICE;
    case FileType::kCharacter:
      return PENSTOCK_CHARACTER_DEVICE;
    case FileType::kSocket:
      return PENSTOCK_SOCKET;
    default:
      return PENSTOCK_FIFO;
  }
}

// Takes what `read_directory` gives, and checks it.
struct EntryTaker {
  const std::function<bool(const EmbeddedCalls::Entry&)>& take;
  const std::function<fs::Result<fs::Attributes>(const penstock_attributes&)> check;
  bool refused = false;
  std::string mistake{};
  std::optional<Error> error{};

  int Take(const char* name, uint64_t file_id, uint64_t cookie, const penstock_handle* handle,
           const penstock_attributes* attributes) {
    if (refused) return 1;
    EmbeddedCalls::Entry entry{.name = name ? name : "", .file_id = file_id, .cookie = cookie};
    if (!fs::CheckOrdinaryName(entry.name, NAME_MAX, Error::kBadName)) return Refuse("an entry with a bad name");
    if (cookie < kFirstCookie) return Refuse(fmt::format("an entry with the cookie {}", cookie));
    if (handle && (handle->size == 0 || handle->size > PENSTOCK_HANDLE_SIZE)) {
      return Refuse(fmt::format("an entry with a handle of {} octets", handle->size));
    }
    if (handle) entry.handle = *handle;
    if (attributes) {
      // It may come from an older header, and be shorter.
      constexpr penstock_attributes kNone = PENSTOCK_ATTRIBUTES_INIT;
      const auto adopted = Adopt(attributes, kNone);
      if (!adopted) return Refuse("an entry with attributes of an unknown form");
      const auto checked = check(*adopted);
      if (!checked) {
        refused = true;
        error = checked.error();
        return 1;
      }
      entry.attributes = *checked;
    }
    refused = !take(entry);
    return refused ? 1 : 0;
  }

 private:
  int Refuse(std::string what) {
    refused = true;
    mistake = std::move(what);
    return 1;
  }
};

int TakeEntry(void* taker, const char* name, uint64_t file_id, uint64_t cookie, const penstock_handle* handle,
              const penstock_attributes* attributes) {
  return static_cast<EntryTaker*>(taker)->Take(name, file_id, cookie, handle, attributes);
}

}  // namespace

fs::Result<bool> EmbeddedCalls::ReadDirectory(const penstock_handle& directory, uint64_t cookie,
                                              const std::function<bool(const Entry&)>& take) {
  EntryTaker taker{.take = take,
                   .check = [this](const penstock_attributes& given) { return Checked("read_directory", given); }};
  PENSTOCK_TRY(const FromHost result, Call("read_directory", [&] {
                 return files_.ops().read_directory(files_.self(), &caller_, &directory, cookie, &TakeEntry, &taker);
               }));
  if (!taker.mistake.empty()) return Fault("read_directory", "has given " + taker.mistake);
  if (taker.error) return std::unexpected(*taker.error);
  if (result != 0 && !taker.refused) {
    return Fault("read_directory", fmt::format("has returned {} in place of zero", result));
  }
  return !taker.refused;
}

fs::Result<penstock_handle> EmbeddedCalls::Create(const penstock_handle& directory, const std::string& name,
                                                  const penstock_new_attributes& attributes) {
  return Find("create", [&](penstock_handle* made) {
    return files_.ops().create(files_.self(), &caller_, &directory, name.c_str(), &attributes, made);
  });
}

fs::Result<penstock_handle> EmbeddedCalls::MakeDirectory(const penstock_handle& directory, const std::string& name,
                                                         const penstock_new_attributes& attributes) {
  return Find("make_directory", [&](penstock_handle* made) {
    return files_.ops().make_directory(files_.self(), &caller_, &directory, name.c_str(), &attributes, made);
  });
}

fs::Result<penstock_handle> EmbeddedCalls::MakeSymlink(const penstock_handle& directory, const std::string& name,
                                                       const std::string& target,
                                                       const penstock_new_attributes& attributes) {
  return Find("make_symlink", [&](penstock_handle* made) {
    return files_.ops().make_symlink(files_.self(), &caller_, &directory, name.c_str(), target.c_str(), &attributes,
                                     made);
  });
}

fs::Result<penstock_handle> EmbeddedCalls::MakeNode(const penstock_handle& directory, const std::string& name,
                                                    const fs::NodeType& type,
                                                    const penstock_new_attributes& attributes) {
  return Find("make_node", [&](penstock_handle* made) {
    return files_.ops().make_node(files_.self(), &caller_, &directory, name.c_str(), TypeFor(type.type),
                                  type.device.major, type.device.minor, &attributes, made);
  });
}

fs::Result<void> EmbeddedCalls::Remove(const penstock_handle& directory, const std::string& name) {
  return Do("remove", [&] { return files_.ops().remove(files_.self(), &caller_, &directory, name.c_str()); });
}

fs::Result<void> EmbeddedCalls::RemoveDirectory(const penstock_handle& directory, const std::string& name) {
  return Do("remove_directory",
            [&] { return files_.ops().remove_directory(files_.self(), &caller_, &directory, name.c_str()); });
}

fs::Result<void> EmbeddedCalls::Rename(const penstock_handle& from_directory, const std::string& from,
                                       const penstock_handle& to_directory, const std::string& to) {
  return Do("rename", [&] {
    return files_.ops().rename(files_.self(), &caller_, &from_directory, from.c_str(), &to_directory, to.c_str());
  });
}

fs::Result<void> EmbeddedCalls::Link(const penstock_handle& file, const penstock_handle& directory,
                                     const std::string& name) {
  return Do("link", [&] { return files_.ops().link(files_.self(), &caller_, &file, &directory, name.c_str()); });
}

}  // namespace penstock::library
