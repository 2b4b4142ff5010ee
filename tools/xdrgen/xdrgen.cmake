# penstock_xdrgen(OUTPUTS nfs3.x ...): writes a header <folder>/<name>.h under ${PENSTOCK_GENERATED} for each of these .x
# files of the current folder, at build time, and sets OUTPUTS to the list of headers. Those of protocol/ are included as
# "protocol/<name>.h". The target generated_<folder> makes the headers alone.
set(PENSTOCK_GENERATED ${PROJECT_BINARY_DIR}/generated CACHE INTERNAL "where generated headers are")

function(penstock_xdrgen outputs)
  set(xdrgen ${CMAKE_CURRENT_FUNCTION_LIST_DIR})
  file(GLOB tool CONFIGURE_DEPENDS ${xdrgen}/*.py ${xdrgen}/*.lark ${xdrgen}/*.j2)
  file(GLOB definitions CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.x)
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  set(headers)
  foreach(input ${ARGN})
    get_filename_component(name ${input} NAME_WE)
    set(header ${PENSTOCK_GENERATED}/${folder}/${name}.h)
    # Every definition is a dependency, because one may import another.
    add_custom_command(OUTPUT ${header}
      COMMAND /usr/bin/python3 -B ${xdrgen}/xdrgen.py ${CMAKE_CURRENT_SOURCE_DIR}/${input} ${header}
      DEPENDS ${definitions} ${tool}
      COMMENT "Generating ${folder}/${name}.h" VERBATIM)
    list(APPEND headers ${header})
  endforeach()
  add_custom_target(generated_${folder} DEPENDS ${headers})
  set(${outputs} ${headers} PARENT_SCOPE)
endfunction()
