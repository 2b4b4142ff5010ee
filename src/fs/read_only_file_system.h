// A base for read-only file systems: an archive, a disk image, a snapshot. It answers every operation that changes
// something, and every operation that has one sensible answer for such a file system. A derived class supplies Root,
// Identify, GetAttributes, Lookup, ReadLink, Read and ReadDirectory. See examples/archive.
#pragma once

#include <string>
#include <vector>

#include "fs/file_system.h"

namespace penstock::fs {

// The answers of this class:
//   operations that change something: kReadOnly, with the attributes of the object;
//   Access: by the mode bits, without the rights to change anything;
//   access control lists: the list that the mode bits stand for;
//   extended attributes: kNotSupported;
//   Pin: of every regular file, since none can be removed;
//   Seek: data up to the end of the file;
//   GetSpace: zeros.
// They call GetAttributes of the derived class, and return its error for an invalid handle.
class ReadOnlyFileSystem : public FileSystem {
 public:
  const Properties& GetProperties() const override { return properties_; }

  Task<Observed<AccessMask>> Access(const RequestContext& context, const Handle& object, AccessMask wanted) override;
  Task<Observed<Space>> GetSpace(const RequestContext& context, const Handle& object) override;
  Task<Result<Pinned>> Pin(const RequestContext& context, const Handle& file) override;
  Task<Observed<SeekReply>> Seek(const RequestContext& context, const Handle& file, uint64_t offset,
                                 SeekWhat what) override;
  Task<Result<void>> Advise(const RequestContext& context, const Handle& file, uint64_t offset, uint64_t count,
                            Advice advice) override;
  Task<Observed<std::vector<std::byte>>> GetXattr(const RequestContext& context, const Handle& object,
                                                  std::string_view name) override;
  Task<Observed<std::vector<std::string>>> ListXattrs(const RequestContext& context, const Handle& object) override;
  Task<Observed<Acls>> GetAcls(const RequestContext& context, const Handle& object) override;

  Task<Changed<void>> SetAttributes(const RequestContext& context, const Handle& object, const NewAttributes& values,
                                    std::optional<Timestamp> guard) final;
  Task<Changed<WriteReply>> Write(const RequestContext& context, const Handle& file, uint64_t offset, const Data& data,
                                  Stability stability) final;
  Task<Changed<WriteVerifier>> Commit(const RequestContext& context, const Handle& file) final;
  Task<Changed<Node>> Create(const RequestContext& context, const Handle& directory, std::string_view name,
                             const CreateHow& how) final;
  Task<Changed<Node>> MakeDirectory(const RequestContext& context, const Handle& directory, std::string_view name,
                                    const NewAttributes& attributes) final;
  Task<Changed<Node>> MakeSymlink(const RequestContext& context, const Handle& directory, std::string_view name,
                                  std::string_view target, const NewAttributes& attributes) final;
  Task<Changed<Node>> MakeNode(const RequestContext& context, const Handle& directory, std::string_view name,
                               const NodeType& type, const NewAttributes& attributes) final;
  Task<Changed<void>> Remove(const RequestContext& context, const Handle& directory, std::string_view name) final;
  Task<Changed<void>> RemoveDirectory(const RequestContext& context, const Handle& directory,
                                      std::string_view name) final;
  Task<Renamed> Rename(const RequestContext& context, const Handle& from_directory, std::string_view from_name,
                       const Handle& to_directory, std::string_view to_name) final;
  Task<Linked> Link(const RequestContext& context, const Handle& file, const Handle& directory,
                    std::string_view name) final;
  Task<Changed<void>> Allocate(const RequestContext& context, const Handle& file, uint64_t offset,
                               uint64_t length) final;
  Task<Changed<void>> Deallocate(const RequestContext& context, const Handle& file, uint64_t offset,
                                 uint64_t length) final;
  Task<Changed<CopyReply>> Copy(const RequestContext& context, const Handle& from, uint64_t from_offset,
                                const Handle& to, uint64_t to_offset, uint64_t count) final;
  Task<Changed<void>> Clone(const RequestContext& context, const Handle& from, uint64_t from_offset, const Handle& to,
                            uint64_t to_offset, uint64_t count) final;
  Task<Changed<void>> SetXattr(const RequestContext& context, const Handle& object, std::string_view name,
                               ConstBytes value, XattrMode mode) final;
  Task<Changed<void>> RemoveXattr(const RequestContext& context, const Handle& object, std::string_view name) final;
  Task<Changed<void>> SetAcls(const RequestContext& context, const Handle& object, const NewAcls& acls) final;

 protected:
  // `properties.read_only` becomes true.
  explicit ReadOnlyFileSystem(Properties properties = {});

 private:
  template <class T>
  Task<Changed<T>> Refuse(const RequestContext& context, const Handle& object);
  template <class T>
  Task<Observed<T>> RefuseXattrs(const RequestContext& context, const Handle& object);

  Properties properties_;
};

}  // namespace penstock::fs
