# cmake --install: the tools, libForebayCompiler for plug-ins, the runtime for embedding, headers, and find_package(Forebay).
#
# Two sets of targets: Forebay::ForebayRuntime needs neither MLIR nor LLVM, Forebay::ForebayCompiler needs both.
include(CMakePackageConfigHelpers)
set(package_dir lib/cmake/Forebay)

set(tools forebay-compile forebay-opt forebay-run forebay-sim forebay-translate)
set_target_properties(${tools} ForebayCompiler PROPERTIES INSTALL_RPATH "$ORIGIN/../lib;${LLVM_LIBRARY_DIR}")
target_include_directories(ForebayCompiler INTERFACE $<INSTALL_INTERFACE:include>)
install(TARGETS ${tools} RUNTIME DESTINATION bin)
install(TARGETS ForebayCompiler EXPORT ForebayCompilerTargets LIBRARY DESTINATION lib)
install(TARGETS ForebayProgram ForebayVerifier ForebayHostBackend ForebayKernels ForebayRuntime EXPORT ForebayRuntimeTargets
  ARCHIVE DESTINATION lib)

install(DIRECTORY include/forebay ${PROJECT_BINARY_DIR}/include/forebay DESTINATION include
  FILES_MATCHING PATTERN "*.h" PATTERN "*.td" PATTERN "*.inc" PATTERN "CMakeFiles" EXCLUDE)
install(DIRECTORY runtime/include/forebay DESTINATION include FILES_MATCHING PATTERN "*.h")
install(DIRECTORY machines DESTINATION share/forebay)

install(EXPORT ForebayCompilerTargets NAMESPACE Forebay:: DESTINATION ${package_dir})
install(EXPORT ForebayRuntimeTargets NAMESPACE Forebay:: DESTINATION ${package_dir})
configure_package_config_file(cmake/ForebayConfig.cmake.in ${PROJECT_BINARY_DIR}/ForebayConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ForebayConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ForebayConfig.cmake ${PROJECT_BINARY_DIR}/ForebayConfigVersion.cmake cmake/ForebayPlugin.cmake
  DESTINATION ${package_dir})
