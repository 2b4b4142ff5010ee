// The functions of the C API for names and directories.
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "library/attributes.h"
#include "library/error_text.h"
#include "library/mount.h"
#include "library/structures.h"
#include "penstock/penstock.h"

using namespace penstock;           // NOLINT: the functions of the C API are in no namespace
using namespace penstock::library;  // NOLINT

struct penstock_listing {
  std::vector<client::Entry> entries;
  size_t next = 0;
  penstock_attributes attributes = PENSTOCK_ATTRIBUTES_INIT;  // of the entry that was taken last
};

namespace penstock::library {
namespace {

int CheckFlags(unsigned flags) {
  if (flags & ~PENSTOCK_NOFOLLOW) return Fail(EINVAL, "unknown flags");
  return 0;
}

// Starts work on a path.
template <class Function>
int64_t StartOnPath(penstock_mount* mount, const char* path, const penstock_call* call, Function work) {
  return Guarded([&]() -> int64_t {
    std::string taken = path ? path : "";
    return StartOn(
        mount, {path}, call,
        [mount, taken = std::move(taken), work = std::move(work)](Operation& operation, client::Mount& inner) {
          return work(operation, inner, PathOf(*mount, taken));
        });
  });
}

// Starts work on a name that need not exist. The root of the export has no name: the work fails with `for_root`.
template <class Function>
int64_t StartOnPlace(penstock_mount* mount, const char* path, int for_root, const penstock_call* call, Function work) {
  return StartOnPath(
      mount, path, call,
      [work = std::move(work), for_root](Operation&, client::Mount& inner, std::string below) -> Task<Outcome> {
        if (below.find_first_not_of('/') == below.npos) {
          co_return std::unexpected(client::Error{"/: " + DescribeErrno(for_root), std::nullopt, for_root});
        }
        PENSTOCK_CO_TRY(const client::Mount::Place place, co_await inner.ResolvePlace(std::move(below)));
        PENSTOCK_CO_CHECK(co_await work(inner, place));
        co_return 0;
      });
}

// For a result that nobody needs.
template <class T>
client::Result<void> WithoutValue(client::Result<T> result) {
  if (!result) return std::unexpected(std::move(result).error());
  return {};
}

}  // namespace
}  // namespace penstock::library

int penstock_stat(penstock_mount* mount, const char* path, unsigned flags, penstock_attributes* attributes,
                  const penstock_call* call) {
  if (const int wrong = CheckRoom(attributes); wrong != 0) return wrong;
  if (const int wrong = CheckFlags(flags); wrong != 0) return wrong;
  return StartOnPath(
      mount, path, call,
      [attributes, flags](Operation& operation, client::Mount& inner, std::string below) -> Task<Outcome> {
        PENSTOCK_CO_TRY(const client::Node node,
                        co_await inner.Resolve(std::move(below), !(flags & PENSTOCK_NOFOLLOW)));
        if (!operation.abandoned()) GiveStructure(ConvertAttributes(node.attributes), *attributes);
        co_return 0;
      });
}

int penstock_set_attributes(penstock_mount* mount, const char* path, unsigned flags,
                            const penstock_new_attributes* attributes, const penstock_call* call) {
  return Guarded([&]() -> int64_t {
    client::NewAttributes taken;
    if (const int wrong = TakeNewAttributes(attributes, taken); wrong != 0) return wrong;
    if (const int wrong = CheckFlags(flags); wrong != 0) return wrong;
    return StartOnPath(mount, path, call,
                       [taken = std::move(taken), flags](Operation& operation, client::Mount& inner,
                                                         std::string below) -> Task<Outcome> {
                         PENSTOCK_CO_TRY(const client::Node node,
                                         co_await inner.Resolve(below, !(flags & PENSTOCK_NOFOLLOW)));
                         if (operation.abandoned()) co_return 0;
                         PENSTOCK_CO_CHECK(co_await inner.SetAttributes(node.handle, below, taken));
                         co_return 0;
                       });
  });
}

int penstock_readlink(penstock_mount* mount, const char* path, char* buffer, size_t size, const penstock_call* call) {
  if (!buffer) return Fail(EINVAL, "an argument is null");
  return StartOnPath(
      mount, path, call,
      [buffer, size](Operation& operation, client::Mount& inner, std::string below) -> Task<Outcome> {
        PENSTOCK_CO_TRY(const client::Node node, co_await inner.Resolve(below, false));
        if (node.attributes.type != client::FileType::kSymlink) {
          co_return std::unexpected(client::Error{below + ": not a symbolic link", std::nullopt, EINVAL});
        }
        PENSTOCK_CO_TRY(const std::string text, co_await inner.ReadLink(node.handle, below));
        if (operation.abandoned()) co_return 0;
        if (text.size() >= size) {
          co_return std::unexpected(
              client::Error{below + ": the text of the link is longer than the room for it", std::nullopt, ERANGE});
        }
        std::memcpy(buffer, text.c_str(), text.size() + 1);
        co_return static_cast<int64_t>(text.size());
      });
}

int penstock_mkdir(penstock_mount* mount, const char* path, uint32_t mode, const penstock_call* call) {
  if (mode > 07777) return Fail(EINVAL, "a mode has twelve bits");
  return StartOnPlace(mount, path, EEXIST, call,
                      [mode](client::Mount& inner, const client::Mount::Place& place) -> Task<client::Result<void>> {
                        co_return WithoutValue(co_await inner.MakeDirectory(place.directory, place.name, mode));
                      });
}

int penstock_rmdir(penstock_mount* mount, const char* path, const penstock_call* call) {
  return StartOnPlace(mount, path, EBUSY, call, [](client::Mount& inner, const client::Mount::Place& place) {
    return inner.RemoveDirectory(place.directory, place.name);
  });
}

int penstock_unlink(penstock_mount* mount, const char* path, const penstock_call* call) {
  return StartOnPlace(mount, path, EISDIR, call, [](client::Mount& inner, const client::Mount::Place& place) {
    return inner.Remove(place.directory, place.name);
  });
}

int penstock_rename(penstock_mount* mount, const char* from, const char* to, const penstock_call* call) {
  if (!to) return Fail(EINVAL, "an argument is null");
  return Guarded([&]() -> int64_t {
    return StartOnPath(
        mount, from, call,
        [mount, target = std::string(to)](Operation& operation, client::Mount& inner,
                                          std::string below) -> Task<Outcome> {
          PENSTOCK_CO_TRY(const client::Mount::Place source, co_await inner.ResolvePlace(std::move(below)));
          PENSTOCK_CO_TRY(const client::Mount::Place place, co_await inner.ResolvePlace(PathOf(*mount, target)));
          if (operation.abandoned()) co_return 0;
          PENSTOCK_CO_CHECK(co_await inner.Rename(source.directory, source.name, place.directory, place.name));
          co_return 0;
        });
  });
}

int penstock_link(penstock_mount* mount, const char* file, const char* name, const penstock_call* call) {
  if (!name) return Fail(EINVAL, "an argument is null");
  return Guarded([&]() -> int64_t {
    return StartOnPath(mount, file, call,
                       [mount, target = std::string(name)](Operation& operation, client::Mount& inner,
                                                           std::string below) -> Task<Outcome> {
                         PENSTOCK_CO_TRY(const client::Node node, co_await inner.Resolve(std::move(below), false));
                         PENSTOCK_CO_TRY(const client::Mount::Place place,
                                         co_await inner.ResolvePlace(PathOf(*mount, target)));
                         if (operation.abandoned()) co_return 0;
                         PENSTOCK_CO_CHECK(co_await inner.Link(node.handle, place.directory, place.name));
                         co_return 0;
                       });
  });
}

int penstock_symlink(penstock_mount* mount, const char* target, const char* path, const penstock_call* call) {
  if (!target) return Fail(EINVAL, "an argument is null");
  return Guarded([&]() -> int64_t {
    return StartOnPlace(mount, path, EEXIST, call,
                        [text = std::string(target)](client::Mount& inner,
                                                     const client::Mount::Place& place) -> Task<client::Result<void>> {
                          co_return WithoutValue(co_await inner.MakeSymlink(place.directory, place.name, text));
                        });
  });
}

int penstock_statfs(penstock_mount* mount, const char* path, penstock_space* space, const penstock_call* call) {
  if (const int wrong = CheckRoom(space); wrong != 0) return wrong;
  return StartOnPath(mount, path, call,
                     [space](Operation& operation, client::Mount& inner, std::string below) -> Task<Outcome> {
                       PENSTOCK_CO_TRY(const client::Node node, co_await inner.Resolve(below));
                       PENSTOCK_CO_TRY(const client::Space found, co_await inner.GetSpace(node.handle, below));
                       if (operation.abandoned()) co_return 0;
                       const penstock_space told{.size = sizeof told,
                                                 .total_octets = found.total,
                                                 .free_octets = found.free,
                                                 .available_octets = found.available,
                                                 .total_files = found.total_files,
                                                 .free_files = found.free_files,
                                                 .available_files = found.available_files};
                       GiveStructure(told, *space);
                       co_return 0;
                     });
}

int64_t penstock_list(penstock_mount* mount, const char* path, penstock_listing** listing, const penstock_call* call) {
  if (!listing) return Fail(EINVAL, "there is no room for the result");
  return StartOnPath(mount, path, call,
                     [listing](Operation& operation, client::Mount& inner, std::string below) -> Task<Outcome> {
                       PENSTOCK_CO_TRY(const client::Node node, co_await inner.Resolve(below));
                       auto made = std::make_unique<penstock_listing>();
                       const auto add = [&made](client::Entry entry) { made->entries.push_back(std::move(entry)); };
                       PENSTOCK_CO_CHECK(co_await inner.List(node.handle, below, add));
                       const auto count = static_cast<int64_t>(made->entries.size());
                       if (!operation.abandoned()) *listing = made.release();
                       co_return count;
                     });
}

int penstock_listing_next(penstock_listing* listing, penstock_entry* entry) {
  if (!listing) return Fail(EINVAL, "there is no listing");
  if (const int wrong = CheckRoom(entry); wrong != 0) return wrong;
  if (listing->next == listing->entries.size()) return 0;
  const client::Entry& taken = listing->entries[listing->next++];
  if (taken.attributes) listing->attributes = ConvertAttributes(*taken.attributes);
  const penstock_entry told{
      .size = sizeof told, .name = taken.name.c_str(), .attributes = taken.attributes ? &listing->attributes : nullptr};
  GiveStructure(told, *entry);
  return 1;
}

void penstock_listing_rewind(penstock_listing* listing) {
  if (listing) listing->next = 0;
}

void penstock_listing_free(penstock_listing* listing) { delete listing; }
