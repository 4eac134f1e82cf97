//! nginx, as a child process.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tokio::net::TcpStream;

use crate::raw_client::TIMEOUT;

/// A running nginx. Stopped when dropped.
pub(crate) struct Nginx {
    process: Child,
    folder: PathBuf,
}

impl Nginx {
    /// Checks and starts nginx with the configuration that `configure` writes for its folder. Waits until it listens at
    /// all `addresses`, of which the first names the folder.
    pub(crate) async fn start(
        addresses: &[SocketAddr],
        configure: impl FnOnce(&Path) -> String,
    ) -> Self {
        let name = format!("gas-suggestion-nginx-{}", addresses[0].port());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("nginx.conf");
        std::fs::write(&file, configure(&folder)).unwrap();
        let command = || {
            let mut command = Command::new("nginx");
            // Debian installs nginx in a folder that is not in every PATH.
            command.env("PATH", std::env::var("PATH").unwrap_or_default() + ":/usr/sbin");
            command.args(["-e", "stderr", "-p"]).arg(&folder).arg("-c").arg(&file);
            command
        };
        let checked = command().arg("-t").output();
        let checked = checked.expect("nginx is needed (Debian: apt-get install nginx)");
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
        let process = command()
            .args(["-g", "daemon off; master_process off;"])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let nginx = Self { process, folder };
        let deadline = Instant::now() + TIMEOUT;
        for address in addresses {
            while TcpStream::connect(address).await.is_err() {
                assert!(Instant::now() < deadline, "nginx does not listen on {address}");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        nginx
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
