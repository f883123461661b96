"""How the site is built: `make docs`."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from importlib.metadata import version as installed

from pygments.lexers.special import TextLexer
from sphinx.highlighting import lexers

project = "counterpoint"
author = "the counterpoint developers"
copyright = f"2026, {author}"
version = release = installed("counterpoint")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",  # there is no public host whose pages a link to the source could show
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "examples", "auto_examples/*.ipynb"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}  # rst is only what is generated
templates_path = ["_templates"]
nitpicky = False  # types of other projects have no pages here: nothing is downloaded to link them

# Markdown
lexers["output"] = TextLexer()  # what a block prints, which the tests compare
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

# The API
autosummary_generate = True
autodoc_typehints = "none"  # numpydoc says them in words, with shapes and units
numpydoc_show_class_members = False  # the template lists them, with their texts
numpydoc_show_inherited_class_members = False
numpydoc_class_members_toctree = False
default_role = "py:obj"

# The gallery
sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"\.py$",
    "image_scrapers": ("matplotlib",),
    "reset_modules": (),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "min_reported_time": 1e9,
    "show_memory": False,
    "doc_module": ("counterpoint",),
    "backreferences_dir": None,
    "thumbnail_size": (760, 520),
}

# The look
html_theme = "pydata_sphinx_theme"
html_title = "counterpoint"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["counterpoint.css"]
html_sidebars = {"**": ["pages.html"]}
html_theme_options = {
    "navbar_center": ["sections.html"],
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_context = {"sections": ["Start", "Tasks", "Models", "Reference"]}  # headings of the first page
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
