"""The Hugging Face Hub: one upload of a folder. Its token and address are the library's own."""

from pathlib import Path

from farflung.common.process.errors import ConfigurationError


def upload(repository: str, folder: Path, message: str) -> str:
    """Make the repository if it is not there, upload a folder as one commit; return its address."""
    try:
        from huggingface_hub import HfApi
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"--to-hub needs the package {error.name}: pip install 'farflung[hub]'"
        ) from error
    api = HfApi(library_name="farflung")
    try:
        made = api.create_repo(repository, exist_ok=True)
        api.upload_folder(repo_id=made.repo_id, folder_path=folder, commit_message=message)
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        reason = " ".join(str(error).split())
        raise ConfigurationError(
            f"nothing was uploaded to {repository}: {reason}. `hf auth login` stores a token"
        ) from error
    return str(made)
